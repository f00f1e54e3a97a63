package portaltest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// flipping is an offer whose mode changes between the daemon's stand-in and endpoints.
type flipping struct {
	*spreading
	*offer
	calls []flipCall
}

type flipCall struct {
	from     *Party
	frontend frontend
}

func (c flipCall) String() string { return fmt.Sprintf("the %s at %v", c.from.Name, c.frontend) }

// flips: connections that begin while frontends flip are answered in either mode, those that begin after an Update in
// the new mode, and open connections live on.
func flips(s *spreading) {
	f := &flipping{spreading: s, offer: s.offer("flipping", 80, "abc")}
	for _, from := range []*Party{s.client, s.node, s.guest} {
		for _, kind := range kinds() {
			for _, family := range inet.Families() {
				f.calls = append(f.calls, flipCall{from, frontend{kind, family, inet.TCP}})
			}
		}
	}
	beside := s.offer("beside", 81, "abc")
	s.Write(slices.Concat(f.redirects(), beside.portals()))
	byDaemon := s.connect(f.offer, kinds(), s.client, s.node, s.guest)
	f.flip(false)
	byPods := s.connect(f.offer, kinds(), s.client, s.node, s.guest)
	f.flip(true)
	stop := f.dialOn()
	for i := range 8 {
		f.flip(i%2 != 0)
		f.live("connected while redirected", byDaemon)
		f.live("connected while spread", byPods)
	}
	stop()
	s.expect(beside, reach{s.client, kinds(), "abc", masqueraded})
}

func (f *flipping) redirects() []portal.Portal {
	out := f.portals()
	for i := range out {
		out[i].Target = portal.Redirect{Port: ProxyPort}
	}
	return out
}

// flip sends new connections to the stand-in or to the endpoints.
func (f *flipping) flip(toDaemon bool) {
	f.Helper()
	changes := f.changes()
	if toDaemon {
		changes = changesOf(f.redirects())
	}
	f.update(changes)
	var wg sync.WaitGroup
	for _, c := range f.calls {
		wg.Go(func() {
			if r := f.ask(c); r.Came != Answered || (r.By == "") != toDaemon {
				f.Errorf("flipped, to the daemon: %t: %s has %v", toDaemon, c, r)
			}
		})
	}
	wg.Wait()
}

func (f *flipping) ask(c flipCall) Reply {
	at := f.dial(c.frontend.kind, c.frontend.family)
	return Asks(c.from.Namespace, c.frontend.proto.String(), at, netip.Addr{}, 1, answerTime)[0]
}

// dialOn dials from all clients until it is stopped, and expects answers in both modes and nothing else.
func (f *flipping) dialOn() (stop func()) {
	var ended atomic.Bool
	var dialing sync.WaitGroup
	for _, c := range f.calls {
		dialing.Go(func() {
			byDaemon := map[bool]int{}
			for ; !ended.Load(); time.Sleep(4 * time.Millisecond) {
				r := f.ask(c)
				if r.Came != Answered {
					f.Errorf("%s, while flipping: %v", c, r)
				}
				byDaemon[r.By == ""]++
			}
			if byDaemon[true] == 0 || byDaemon[false] == 0 {
				f.Errorf("%s was answered %d times by the daemon, %d times by endpoints", c, byDaemon[true], byDaemon[false])
			}
		})
	}
	return func() {
		ended.Store(true)
		dialing.Wait()
	}
}

// flipTime is for how long a Service flips as fast as it can.
const flipTime = 5 * time.Second

// flipsUnderLoad: packets that arrive at any moment of a flip go one way or the other. The Service is the only one,
// so that the rules that the first one needs are added and removed too; and its endpoints are among its clients.
func flipsUnderLoad(s *spreading) {
	o := s.offer("flipping", 80, "ab")
	others := func(p portal.Portal) bool { return p.Kind != service.ClusterIP || p.Frontend.Protocol != inet.TCP }
	f := &flipping{spreading: s, offer: o}
	toPods, toDaemon := slices.DeleteFunc(o.portals(), others), slices.DeleteFunc(f.redirects(), others)
	s.Write(toDaemon)
	stop := s.load(o)
	flips := 0
	for began := time.Now(); time.Since(began) < flipTime; flips += 2 {
		s.Node.Must(func() error {
			return errors.Join(s.Writer.Update(context.Background(), changesOf(toPods)),
				s.Writer.Update(context.Background(), changesOf(toDaemon)))
		})
	}
	stop()
	s.Logf("flipped %d times", flips)
}

// load dials the ClusterIP of an offer all the time until it is stopped, and expects answers.
func (s *spreading) load(o *offer) (stop func()) {
	var ended atomic.Bool
	var dialing sync.WaitGroup
	for _, from := range []*Party{s.client, s.node, s.a, s.b} {
		for _, family := range inet.Families() {
			dialing.Go(func() {
				for !ended.Load() {
					for _, r := range Asks(from.Namespace, "tcp", o.dial(service.ClusterIP, family), netip.Addr{}, 20, answerTime) {
						if r.Came != Answered {
							s.Errorf("the %s, %s, while the Service changes as fast as it can: %v", from.Name, family, r)
						}
					}
				}
			})
		}
	}
	return func() {
		ended.Store(true)
		dialing.Wait()
	}
}

// mixed has all targets side by side at the same addresses, and they come and go apart.
func mixed(s *spreading) {
	o := s.offer("mixed", 84, "ab")
	o.external = service.NodeScope
	s.Write(slices.Concat(SitePortals(), o.portals()))
	s.othersStand()
	s.expect(o, reach{s.client, internalKinds(), "ab", masqueraded}, reach{s.client, externalKinds(), "ab", own},
		reach{s.guest, kinds(), "ab", own}, reach{s.node, internalKinds(), "ab", masqueraded})
	var gone []portal.Change
	for _, p := range o.portals() {
		gone = append(gone, portal.Change{Frontend: p.Frontend})
	}
	s.update(gone)
	s.unserved(o, kinds())
	s.update(o.changes())
	s.othersStand()
	s.expect(o, reach{s.client, internalKinds(), "ab", masqueraded}, reach{s.client, externalKinds(), "ab", own})
}

// othersStand expects of SitePortals what Traffic does.
func (s *spreading) othersStand() {
	s.Helper()
	var wg sync.WaitGroup
	for _, from := range []*Party{s.client, s.guest} {
		for port, want := range map[string]string{"80": Answered, "81": Refused, "83": Silence} {
			wg.Go(func() { s.expectAll(from.Namespace, "the "+from.Name, port, want, "tcp", "udp") })
		}
	}
	wg.Go(func() { s.expectAll(s.guest.Namespace, "the guest", "82", Answered, "tcp", "udp") })
	wg.Go(func() { s.expectAll(s.Client, "the client", "82", Silence, "tcp", "udp") })
	wg.Wait()
}
