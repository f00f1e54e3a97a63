package portaltest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// update applies changes, and forgets UDP flows as the daemon does: what holds those is not the Writer's.
func (s *spreading) update(changes []portal.Change) {
	s.Helper()
	s.Node.Must(func() error { return s.Writer.Update(context.Background(), changes) })
	s.forgetUDP()
}

func (s *spreading) forgetUDP() {
	s.Helper()
	s.Node.Must(func() error {
		for _, family := range []netlink.InetFamily{syscall.AF_INET, syscall.AF_INET6} {
			udp := &netlink.ConntrackFilter{}
			if err := udp.AddProtocol(syscall.IPPROTO_UDP); err != nil {
				return err
			}
			if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, udp); err != nil {
				return fmt.Errorf("forget UDP flows: %w", err)
			}
		}
		return nil
	})
}

// openCalls are open TCP connections by name, each with the endpoint that answers it.
type openCalls map[string]struct {
	call *Call
	by   string
}

// connect opens a connection to each frontend of an offer from each party.
func (s *spreading) connect(o *offer, kinds []service.Kind, parties ...*Party) openCalls {
	s.Helper()
	out := openCalls{}
	for _, from := range parties {
		for _, kind := range kinds {
			for _, family := range inet.Families() {
				name := fmt.Sprintf("the %s to %s", from.Name, o.dial(kind, family))
				call, err := Dial(from.Namespace, "tcp", o.dial(kind, family), netip.Addr{}, answerTime)
				if err != nil {
					s.Errorf("%s: %v", name, err)
					continue
				}
				s.Cleanup(call.Close)
				r := call.Ask()
				if r.Came != Answered {
					s.Errorf("%s: %v", name, r)
				}
				out[name] = struct {
					call *Call
					by   string
				}{call, r.By}
			}
		}
	}
	return out
}

// live expects that the same endpoints as before answer open connections.
func (s *spreading) live(when string, all openCalls) {
	s.Helper()
	var wg sync.WaitGroup
	for name, h := range all {
		wg.Go(func() {
			if r := h.call.Ask(); r.Came != Answered || r.By != h.by {
				s.Errorf("%s: an open connection of %s with %q: %v", when, name, h.by, r)
			}
		})
	}
	wg.Wait()
}

func poolChanges(s *spreading) {
	o := s.offer("changing", 80, "abc")
	s.Write(o.portals())
	open := s.connect(o, kinds(), s.client, s.node, s.guest)
	for _, endpoints := range []string{"ab", "c", "bc"} {
		o.lead(s, endpoints)
		s.update(o.changes())
		s.expect(o, reach{s.client, kinds(), endpoints, masqueraded}, reach{s.node, internalKinds(), endpoints, masqueraded},
			reach{s.guest, internalKinds(), endpoints, own})
		s.live("with "+endpoints, open)
	}
	o.lead(s, "ac")
	s.Write(o.portals())
	s.forgetUDP()
	s.expect(o, reach{s.client, internalKinds(), "ac", masqueraded})
	s.live("after Replace", open)
}

// scopeChanges has traffic policies change, and the endpoints not.
func scopeChanges(s *spreading) {
	o := s.offer("changing", 80, "abc")
	s.Write(o.portals())
	open := s.connect(o, kinds(), s.client)
	for range 2 {
		o.internal, o.external = service.NodeScope, service.ClusterScope
		s.update(o.changes())
		s.expect(o, reach{s.client, internalKinds(), "ab", masqueraded}, reach{s.client, externalKinds(), "abc", masqueraded})
		s.live("with the ClusterIP of this node", open)
		o.internal, o.external = service.ClusterScope, service.NodeScope
		s.update(o.changes())
		s.expect(o, reach{s.client, internalKinds(), "abc", masqueraded}, reach{s.client, externalKinds(), "ab", own})
		s.live("with the others of this node", open)
	}
}

// lastEndpointGoes: the Service is refused when it has none at all, and silent to outsiders when this node has none.
// Open connections do not care: endpoints end theirs as they see fit.
func lastEndpointGoes(s *spreading) {
	cluster, local := s.offer("cluster", 80, "abc"), s.local(81, "abc")
	s.Write(slices.Concat(cluster.portals(), local.portals()))
	open := s.connect(cluster, kinds(), s.client, s.node, s.guest)
	outside := s.connect(local, externalKinds(), s.client)

	refused := cluster.portals()
	for i := range refused {
		refused[i].Target = portal.Reject{}
	}
	local.lead(s, "c")
	s.update(slices.Concat(changesOf(refused), local.changes()))
	s.allRefused(cluster, s.client, s.node, s.guest)
	s.expect(local, reach{s.client, externalKinds(), "", own})
	s.live("without an endpoint", open)
	s.live("without an endpoint here", outside)

	local.lead(s, "abc")
	s.update(slices.Concat(cluster.changes(), local.changes()))
	s.expect(cluster, reach{s.client, kinds(), "abc", masqueraded})
	s.expect(local, reach{s.client, externalKinds(), "ab", own})
	s.live("with endpoints again", open)
	s.live("with endpoints here again", outside)
}

func (s *spreading) allRefused(o *offer, parties ...*Party) {
	s.Helper()
	var wg sync.WaitGroup
	for _, from := range parties {
		for _, w := range frontends(kinds()...) {
			wg.Go(func() {
				s.Expect(from.Namespace, "the "+from.Name, w.proto.String(), o.dial(w.kind, w.family), Refused)
			})
		}
	}
	wg.Wait()
}

func portalGoes(s *spreading) {
	o, other := s.offer("going", 80, "abc"), s.offer("staying", 81, "abc")
	s.Write(slices.Concat(o.portals(), other.portals()))
	for _, going := range [][]service.Kind{kinds()[3:], kinds()[:3]} {
		var changes []portal.Change
		for _, w := range frontends(going...) {
			changes = append(changes, portal.Change{Frontend: o.frontend(w.kind, w.family, w.proto)})
		}
		s.update(changes)
		s.unserved(o, going)
		s.expect(other, reach{s.client, internalKinds(), "abc", masqueraded})
		if going[0] == service.LoadBalancerIP {
			s.expect(o, reach{s.client, kinds()[:3], "abc", masqueraded})
		}
	}
	s.Write(o.portals())
	s.forgetUDP()
	s.unserved(other, kinds())
	s.expect(o, reach{s.client, internalKinds(), "abc", masqueraded})
}

// unserved expects no answer, however it fails.
func (s *spreading) unserved(o *offer, kinds []service.Kind) {
	s.Helper()
	var wg sync.WaitGroup
	for _, from := range []*Party{s.client, s.node, s.guest} {
		for _, w := range frontends(kinds...) {
			wg.Go(func() {
				r := Asks(from.Namespace, w.proto.String(), o.dial(w.kind, w.family), netip.Addr{}, 1, silenceTime)[0]
				if r.Came == Answered {
					s.Errorf("the %s asks %v, which is gone: %v", from.Name, w, r)
				}
			})
		}
	}
	wg.Wait()
}
