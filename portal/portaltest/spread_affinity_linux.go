package portaltest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/service"
)

// crowd is how many clients affinity is tried with: by chance they all choose one of two endpoints once in 8 million
// times.
const crowd = 24

// addCrowd gives the client more addresses.
func (s *spreading) addCrowd() []Addrs {
	s.Helper()
	var out []Addrs
	var texts []string
	for i := range crowd {
		a := addrs(fmt.Sprintf("192.0.2.%d", 100+i), fmt.Sprintf("fd00:2::%d", 100+i))
		out = append(out, a)
		texts = append(texts, a.V4.String()+"/24", a.V6.String()+"/64")
	}
	s.Client.Must(func() error { return netnstest.Up("eth0", texts) })
	return out
}

// frontend is one of an offer's frontends.
type frontend struct {
	kind   service.Kind
	family inet.Family
	proto  inet.Protocol
}

func frontends(kinds ...service.Kind) (out []frontend) {
	for _, kind := range kinds {
		for _, family := range inet.Families() {
			for _, proto := range protocols() {
				out = append(out, frontend{kind, family, proto})
			}
		}
	}
	return out
}

// homes are the endpoints that clients have, by frontend and client address.
type homes map[frontend]map[netip.Addr]string

// homes asks frontends of an offer n times from each of a crowd, and expects that each client has one endpoint at each.
// It asks frontends of different kinds one after the other: they may share what they remember of a client.
func (s *spreading) homes(o *offer, all []Addrs, n int, kinds ...service.Kind) homes {
	s.Helper()
	out := homes{}
	var mu sync.Mutex
	for _, kind := range kinds {
		var wg sync.WaitGroup
		for _, w := range frontends(kind) {
			wg.Go(func() {
				byClient := s.homesBy(o, all, n, w)
				mu.Lock()
				defer mu.Unlock()
				out[w] = byClient
			})
		}
		wg.Wait()
	}
	return out
}

func (s *spreading) homesBy(o *offer, all []Addrs, n int, w frontend) map[netip.Addr]string {
	s.Helper()
	out := map[netip.Addr]string{}
	for _, client := range all {
		addr := client.Of(w.family)
		replies := Asks(s.Client, w.proto.String(), o.dial(w.kind, w.family), addr, n, answerTime)
		out[addr] = replies[0].By
		if i := slices.IndexFunc(replies, func(r Reply) bool { return r.By == "" || r.By != out[addr] }); i >= 0 {
			s.Errorf("%v: %s had %q, and then %v", w, addr, out[addr], replies[i])
		}
	}
	return out
}

// moved expects that clients have the endpoints that they had, or where those left, another of these.
func (s *spreading) moved(when string, before, after homes, endpoints string) {
	s.Helper()
	for w, clients := range before {
		for addr, was := range clients {
			is := after[w][addr]
			if stays := strings.Contains(endpoints, was); stays && is != was || !strings.Contains(endpoints, is) {
				s.Errorf("%s: %v: %s goes from %s to %s, of %s", when, w, addr, was, is, endpoints)
			}
		}
	}
}

// several expects that a crowd does not share one endpoint.
func (s *spreading) several(all homes) {
	s.Helper()
	for w, clients := range all {
		if used := slices.Compact(slices.Sorted(maps.Values(clients))); len(used) < 2 {
			s.Errorf("%v: all clients have %v", w, used)
		}
	}
}

func affinityHolds(s *spreading) {
	o := s.offer("sticky", 80, "abc", affinity(time.Minute))
	local := s.local(81, "abc", affinity(time.Minute))
	s.Write(slices.Concat(o.portals(), local.portals()))
	all := s.addCrowd()
	s.several(s.homes(o, all, 3, kinds()...))
	outside := s.homes(local, all, 3, externalKinds()...)
	s.several(outside)
	s.moved("outsiders", outside, outside, "ab")
	for _, from := range []*Party{s.node, s.guest, s.a} {
		for _, w := range frontends(kinds()...) {
			s.sticks(from, o, w)
		}
	}
}

// sticks expects one endpoint in all of many answers.
func (s *spreading) sticks(from *Party, o *offer, w frontend) {
	s.Helper()
	replies := Asks(from.Namespace, w.proto.String(), o.dial(w.kind, w.family), netip.Addr{}, 12, answerTime)
	for _, r := range replies {
		if r.By == "" || r.By != replies[0].By {
			s.Errorf("%v: the %s had %q, and then %v", w, from.Name, replies[0].By, r)
		}
	}
}

func affinityAcrossFrontends(s *spreading) {
	o := s.offer("sticky", 80, "abc", affinity(time.Minute))
	s.Write(o.portals())
	all := s.addCrowd()
	first := s.homes(o, all, 2, service.ClusterIP)
	for _, kind := range externalKinds() {
		others := homes{}
		for w, clients := range s.homes(o, all, 1, kind) {
			others[frontend{service.ClusterIP, w.family, w.proto}] = clients
		}
		s.moved("by "+kind.String(), first, others, "abc")
	}
}

func affinityThroughChanges(s *spreading) {
	o := s.offer("sticky", 80, "ab", affinity(time.Minute))
	s.Write(o.portals())
	all, some := s.addCrowd(), []service.Kind{service.ClusterIP, service.NodePort}
	before := s.homes(o, all, 2, some...)
	for _, endpoints := range []string{"abc", "ac", "bc"} {
		o.lead(s, endpoints, affinity(time.Minute))
		s.update(o.changes())
		after := s.homes(o, all, 2, some...)
		s.moved("with "+endpoints, before, after, endpoints)
		before = after
	}
	s.Write(o.portals())
	s.moved("after Replace", before, s.homes(o, all, 2, some...), "bc")
	o.lead(s, "bc")
	s.update(o.changes())
	s.expect(o, reach{s.client, kinds(), "bc", masqueraded})
	o.lead(s, "bc", affinity(time.Minute))
	s.update(o.changes())
	s.several(s.homes(o, all, 3, some...))
}

// affinityForgotten asks for longer than the timeout, but never as long in between, and then after more than that.
func affinityForgotten(s *spreading) {
	const timeout = time.Second
	o := s.offer("sticky", 80, "abc", affinity(timeout))
	s.Write(o.portals())
	all := s.addCrowd()
	start := time.Now()
	before := s.homes(o, all, 1, service.ClusterIP)
	for range 5 {
		time.Sleep(timeout / 4)
		next := time.Now()
		after := s.homes(o, all, 1, service.ClusterIP)
		if time.Since(start) < timeout { // else the machine is too slow to tell
			s.moved("within its time", before, after, "abc")
		}
		start, before = next, after
	}
	time.Sleep(timeout + timeout/4)
	for w, clients := range s.homes(o, all, 1, service.ClusterIP) {
		if maps.Equal(clients, before[w]) {
			s.Errorf("%v: all clients have the endpoints that they had before the timeout", w)
		}
	}
}
