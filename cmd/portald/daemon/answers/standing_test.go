package answers

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/kube/translate"
)

// The most important problem comes first, whatever else there is.
func TestProblemsInOrder(t *testing.T) {
	one, two := netip.MustParseAddrPort("10.1.0.1:80"), netip.MustParseAddrPort("10.1.0.2:80")
	p := &service.Port{
		Name:      service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP},
		Endpoints: []service.Endpoint{{Addr: one}, {Addr: two}},
		Exposures: []service.Exposure{
			{Frontend: service.Frontend{Addr: netip.MustParseAddrPort("10.96.0.1:80"), Protocol: inet.TCP}},
		},
	}
	holder := portal.Portal{Owner: service.PortName{Namespace: "shop", Name: "older", Protocol: inet.TCP}}
	i := &Inventory{
		Mode: service.ModeUserspace, Problems: NewProblems(),
		PortalAt: func(service.Frontend) *portal.Portal { return &holder },
	}
	s := &standing{
		inventory: i, port: p, states: []string{"not_ready", "drained"},
		told: []translate.Problem{
			{Field: "metadata.annotations[portald.io/mode]", Value: `"no"`, Advice: "must be userspace or kernel"},
			{Object: "Service shop/cart", Field: "spec.x", Value: "1", Advice: "is not served"},
		},
	}
	none, held := "no usable endpoint: 1 drained, 1 not_ready", "10.96.0.1:80/tcp is held by shop/older"
	part, ignored := "Service shop/cart: spec.x: 1: is not served", `portald.io/mode: "no" must be userspace or kernel`
	want := func(when string, all ...string) {
		t.Helper()
		if got := s.problems(); !slices.Equal(got, all) {
			t.Errorf("%s: %q, want %q", when, got, all)
		}
	}
	want("no endpoint is ready", none, held, part, ignored)
	i.Problems.Refused(dataplane.Refusal{Name: p.Name, Reason: "host", Err: errors.New("no room")})
	want("it is set aside", "host: no room", none, held, part, ignored)
	i.Problems.Refused(dataplane.Refusal{Name: p.Name})
	s.states = []string{adminsocket.Ejected, "used"}
	s.failing = failing(map[netip.AddrPort]balance.EjectionStatus{one: {Is: true, LeftOut: true}}, nil)
	want("one is ejected", held, part, "1 of 2 endpoints fail connections: 10.1.0.1:80 (refused)", ignored)
	s.failing = failing(nil, &flows.Ended{Wants: service.RecordsAll, Endpoints: map[netip.AddrPort]flows.EndpointEnded{
		one: {Unreached: unreached, LastError: "connection refused"},
		two: {Unreached: unreached, LastError: "connection timed out"},
	}})
	want("all fail", "2 of 2 endpoints fail connections: 10.1.0.1:80 (connection refused), 10.1.0.2:80 (connection "+
		"timed out)", held, part, ignored)
	holder.Owner, s.failing, s.told = p.Name, nil, nil
	want("all is well")
	s.states, p.Endpoints = nil, nil
	want("there is none", "no endpoint")
	p.Name.Protocol = inet.SCTP
	if got := s.problems(); !strings.HasPrefix(got[0], "mode: ") || got[1] != "no endpoint" {
		t.Errorf("a protocol that its mode does not carry: %q", got)
	}
}

// Counts of a long list are used again, those of a short one are not.
func TestCountsAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists, takes := 0, time.Duration(0)
		recorder := flows.New(flows.Options{
			Mode: service.ModeKernel, Own: func(netip.Addr) bool { return false },
			Timeouts: func() (none flows.Timeouts) { return none },
			List: func(ctx context.Context, _ func([]byte) bool) error {
				lists++
				select {
				case <-time.After(takes):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
		})
		recorder.Replace([]*service.Port{{Name: service.PortName{Namespace: "shop", Name: "cart", Protocol: inet.TCP}}})
		log, _ := logtest.NewNullLogger()
		o := NewOpenFlows(recorder, log)
		count := func(want int, known bool) {
			t.Helper()
			if got := o.count(t.Context()); (got != nil) != known || lists != want {
				t.Errorf("%d lists, want %d; known: %t", lists, want, got != nil)
			}
		}
		count(1, true)
		count(2, true)
		takes = time.Second
		count(3, true)
		time.Sleep(8 * time.Second)
		count(3, true)
		time.Sleep(time.Second)
		takes = time.Minute
		count(4, false)
	})
}
