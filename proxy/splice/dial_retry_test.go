package splice

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/portald/portald/proxy/record"
)

func endpointNumber(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), 80)
}

func TestRounds(t *testing.T) {
	a, b := endpointNumber(1), endpointNumber(2)
	r := &retries{}
	r.failed(a, false)
	r.failed(b, true)
	if !slices.Equal(r.excluded(), []netip.AddrPort{a, b}) || r.position() != 2 || !r.more(3) || r.more(2) {
		t.Errorf("after two dials: %+v", r)
	}
	if !r.readmitSlow() || !slices.Equal(r.excluded(), []netip.AddrPort{a}) || r.readmitSlow() {
		t.Errorf("the slow one may be dialled again, and the other not: %+v", r)
	}
	if r.nextRound(false); !slices.Equal(r.excluded(), []netip.AddrPort{a}) || r.position() != 0 {
		t.Errorf("a round that left some out goes on with those: %+v", r)
	}
	if r.nextRound(true); len(r.excluded()) > 0 || r.timedOut != 1 {
		t.Errorf("all may be dialled again: %+v", r)
	}
	r.failed(a, true)
	if r.restart(); r.more(2) || !r.more(3) {
		t.Errorf("dials without an answer count in all rounds: %+v", r)
	}
}

func TestPausesBetweenRounds(t *testing.T) {
	r := &retries{}
	for round, most := range []time.Duration{10, 20, 40, 80, 160, 320, 500, 500} {
		most *= time.Millisecond
		if got := r.nextRound(true); got > most || got <= most*3/4-1 {
			t.Errorf("pause %d: %v, want up to a quarter less than %v", round, got, most)
		}
	}
	r.restart()
	if got := r.nextRound(true); got > firstRetry {
		t.Errorf("after a change of endpoints: %v", got)
	}
}

// Attempts of a record are bounded, and none is left uncounted.
func TestAttemptsAreBounded(t *testing.T) {
	var all attempts
	fail := func(i int, why string) {
		all = append(all, record.Attempt{Endpoint: endpointNumber(i), Times: 1})
		all.failed(why, time.Millisecond)
	}
	for range 10 {
		fail(1, "connection refused")
		fail(2, "connection refused")
	}
	fail(1, "no route to host")
	for range 2 {
		fail(3, ErrTimeout.Error())
	}
	var got []string
	for _, a := range all {
		got = append(got, fmt.Sprint(a.Endpoint.Addr(), " ", a.Err, " ", a.Times, " ", a.Took))
	}
	want := []string{
		"10.1.0.1 connection refused 10 10ms", "10.1.0.2 connection refused 10 10ms", "10.1.0.1 no route to host 1 1ms",
		"10.1.0.3 timeout 1 1ms", "10.1.0.3 timeout 1 1ms"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 200 {
		fail(4+i, "connection refused")
	}
	times := 0
	for _, a := range all {
		times += int(a.Times)
	}
	last := all[len(all)-1]
	if len(all) != maxAttempts || times != 223 || last.Endpoint != endpointNumber(203) {
		t.Errorf("%d attempts of %d dials, the last %+v", len(all), times, last)
	}
}
