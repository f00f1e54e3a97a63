package inspect

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

// Dials that failed belong to the pod at which the last of them was, as other records name it; to its address where
// none does, or more than one; and to nobody where there was no endpoint.
func TestFailuresOfPods(t *testing.T) {
	at := func(i int) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), 80) }
	failed := func(dials ...int) *connlog.Line {
		l := &connlog.Line{Service: "shop/cart:http", Outcome: record.OutcomeDialFailed, BytesFromClient: 1}
		for _, i := range dials {
			l.Attempts = append(l.Attempts, connlog.Attempt{Endpoint: at(i), Error: "connection refused"})
		}
		return l
	}
	served := func(i int, pod string, dials ...int) *connlog.Line {
		l := failed(append(dials, i)...)
		l.Outcome, l.Endpoint, l.Pod = record.OutcomeOK, at(i), pod
		return l
	}
	for by, want := range map[string]string{
		byPod: "shop/a 3 2 3, 10.1.0.3:80 2 2 2, shop/b 2 0 2, - 1 1 1, 10.1.0.2:80 1 1 1, shop/c 1 0 1",
		// by node nothing is known of an endpoint that did not serve
		byNode: "- 10 6 10",
	} {
		g := newGroups(by)
		for _, l := range []*connlog.Line{
			failed(3, 1), served(1, "shop/a", 2), failed(1), failed(), failed(1, 3), failed(3), failed(2),
			served(2, "shop/b"), served(2, "shop/c"), served(4, "shop/b", 1),
		} {
			g.addRecord(l)
		}
		var got []string
		for _, r := range g.rows(0) {
			name := r.Name
			if name == "" {
				name = none
			}
			got = append(got, fmt.Sprint(name, " ", r.Count, " ", r.Failed, " ", r.BytesUp))
			if len(r.durations) != r.Count || r.ClientPod != "" {
				t.Errorf("%+v", r)
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("by %s: %s\nwant %s", by, text, want)
		}
	}
}
