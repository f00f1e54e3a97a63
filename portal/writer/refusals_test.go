package writer

import (
	"net/netip"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// What counters grow by is reported once, whatever begins them again.
func TestRefusals(t *testing.T) {
	at := service.Frontend{Addr: netip.MustParseAddrPort("10.96.0.1:80"), Protocol: inet.TCP}
	one, other := service.PortName{Name: "one"}, service.PortName{Name: "other"}
	sum, begun := map[service.PortName]uint64{}, 0
	r := NewRefusals(func(p portal.Refused) {
		if sum[p.Owner] += p.Packets; p.Packets == 0 {
			begun++
		}
		if p.Since.IsZero() {
			t.Error("not known since when")
		}
	})
	read := func(packets uint64) { r.Begin().Add(at, packets) }
	expect := func(when string, ofOne, ofOther uint64, begins int) {
		t.Helper()
		if sum[one] != ofOne || sum[other] != ofOther || begun != begins {
			t.Errorf("%s: %v, %d begun; want %d and %d, %d", when, sum, begun, ofOne, ofOther, begins)
		}
	}
	read(7)
	expect("of no frontend", 0, 0, 0)
	r.Found(at, one)
	if !r.Any() || !r.Unread() {
		t.Error("found, and not to be read")
	}
	read(7)
	if r.Unread() {
		t.Error("still to be read")
	}
	expect("counted before it was found", 0, 0, 1)
	read(9)
	r.Found(at, one)
	read(9)
	expect("found again", 2, 0, 1)
	late := r.Begin()
	read(10)
	late.Add(at, 9)
	expect("a reading that others overtook", 3, 0, 1)
	late = r.Begin()
	r.Wrote(at, one)
	late.Add(at, 10)
	read(1)
	expect("written again", 4, 0, 1)
	r.Hold([]service.Frontend{at})
	read(0)
	r.Found(at, one)
	read(2)
	expect("held, and not written after all", 5, 0, 1)
	read(1)
	expect("set to 0 by somebody", 6, 0, 1)
	r.Wrote(at, other)
	read(5)
	expect("of another Service", 6, 5, 2)
	r.Removed(at)
	read(8)
	r.Found(at, one)
	r.Retain(func(service.Frontend) bool { return false })
	if expect("gone", 6, 5, 3); r.Any() || r.Unread() {
		t.Error("not empty")
	}
}
