package portaltest

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// by has endpoints chosen by an algorithm.
func by(a service.Algorithm) func(*portal.Pool) {
	return func(pool *portal.Pool) { pool.Algorithm = a }
}

// offers tells whether the Writer offers an algorithm.
func (s *spreading) offers(a service.Algorithm) (offers bool) {
	s.Node.Must(func() error {
		offers = s.Writer.Offers(a)
		return nil
	})
	return offers
}

// offered are all that it offers.
func (s *spreading) offered() []service.Algorithm {
	all := append(service.Algorithms(), service.AlgorithmDefault)
	return slices.DeleteFunc(all, func(a service.Algorithm) bool { return !s.offers(a) })
}

// turns asks each frontend of these kinds, one after the other, and expects each endpoint once in every round.
func (s *spreading) turns(from *Party, o *offer, endpoints string, kinds ...service.Kind) {
	s.Helper()
	const rounds = 8
	for _, kind := range kinds {
		var wg sync.WaitGroup
		for _, w := range frontends(kind) {
			wg.Go(func() {
				got := s.names(from, w.proto.String(), o.dial(kind, w.family), rounds*len(endpoints))
				first := got[:min(len(endpoints), len(got))]
				if got != strings.Repeat(first, rounds) || !permutes(first, endpoints) {
					s.Errorf("%v: the %s is answered by %s, want %s in turns", w, from.Name, got, endpoints)
				}
			})
		}
		wg.Wait()
	}
}

// names returns the endpoints that answer n calls, one letter each.
func (s *spreading) names(from *Party, network, addr string, n int) string {
	var b strings.Builder
	for _, r := range Asks(from.Namespace, network, addr, netip.Addr{}, n, answerTime) {
		b.WriteString(r.By)
	}
	return b.String()
}

func permutes(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values([]byte(a))), slices.Sorted(slices.Values([]byte(b))))
}

func roundRobin(s *spreading) {
	o, local := s.offer("turns", 80, "abc", by(service.RoundRobin)), s.local(81, "abc", by(service.RoundRobin))
	one := s.offer("one", 82, "b", by(service.RoundRobin))
	s.Write(slices.Concat(o.portals(), local.portals(), one.portals()))
	s.turns(s.client, o, "abc", kinds()...)
	s.turns(s.node, o, "abc", service.ClusterIP, service.NodePort)
	s.turns(s.client, local, "ab", externalKinds()...)
	s.turns(s.client, one, "b", service.ClusterIP)
	o.lead(s, "ac", by(service.RoundRobin))
	s.update(o.changes())
	s.turns(s.client, o, "ac", kinds()...)
}

// roundRobinBinds: each client keeps its endpoint, and of clients that come one after the other all have as many.
func roundRobinBinds(s *spreading) {
	o := s.offer("sticky", 80, "abc", affinity(time.Minute), by(service.RoundRobin))
	s.Write(o.portals())
	all := s.addCrowd()
	for w, clients := range s.homes(o, all, 2, service.ClusterIP) {
		counts := map[string]int{}
		for _, by := range clients {
			counts[by]++
		}
		if want := map[string]int{"a": crowd / 3, "b": crowd / 3, "c": crowd / 3}; !maps.Equal(counts, want) {
			s.Errorf("%v: clients have %v, want %v", w, counts, want)
		}
	}
}

// sourceHash: a client has one endpoint, by every frontend and on each node that has the same endpoints, whatever it
// had before.
func sourceHash(s *spreading) {
	o := s.offer("hashed", 80, "abc", by(service.SourceHash))
	s.Write(o.portals())
	all := s.addCrowd()
	here := s.homes(o, all, 3, kinds()...)
	s.several(here)
	for _, kind := range externalKinds() {
		for _, w := range frontends(kind) {
			if first := here[frontend{service.ClusterIP, w.family, w.proto}]; !maps.Equal(first, here[w]) {
				s.Errorf("%v: clients have %v, by the ClusterIP %v", w, here[w], first)
			}
		}
	}
	other := s.another()
	other.addCrowd()
	again := other.offer("hashed", 80, "ab", by(service.SourceHash))
	other.Write(again.portals())
	again.lead(other, "abc", by(service.SourceHash))
	other.update(again.changes())
	s.moved("on another node", here, other.homes(again, all, 1, kinds()...), "abc")
	o.lead(s, "ac", by(service.SourceHash))
	s.update(o.changes())
	left := s.homes(o, all, 2, service.ClusterIP)
	s.several(left)
}

// leastConnections: connections that are held are spread evenly, and when one endpoint's close it gets the next ones.
func leastConnections(s *spreading) {
	o := s.offer("least", 80, "abc", by(service.LeastConnections))
	s.Write(o.portals())
	for _, w := range frontends(service.ClusterIP) {
		if w.proto != inet.TCP {
			continue
		}
		counts := map[string]int{}
		for range 9 {
			call, err := Dial(s.client.Namespace, "tcp", o.dial(w.kind, w.family), netip.Addr{}, answerTime)
			if err != nil {
				s.Fatal(err)
			}
			s.Cleanup(call.Close)
			counts[call.Ask().By]++
		}
		if want := map[string]int{"a": 3, "b": 3, "c": 3}; !maps.Equal(counts, want) {
			s.Errorf("%v: open connections %v, want %v", w, counts, want)
		}
	}
}

// randomly checks portals without an algorithm, which rules spread at random.
func randomly(s *spreading) {
	o := s.offer("random", 80, "abc", by(service.Random))
	s.Write(o.portals())
	s.expect(o, reach{s.client, kinds(), "abc", masqueraded})
	for _, w := range frontends(service.ClusterIP) {
		got := s.names(s.client, w.proto.String(), o.dial(w.kind, w.family), 30)
		if got == strings.Repeat(got[:3], 10) { // once in 3^27 times
			s.Errorf("%v: endpoints are taken in turns: %s", w, got)
		}
	}
}

// algorithmChanges: open connections live on, and a Service that takes turns goes on where it was.
func algorithmChanges(s *spreading) {
	o, other := s.offer("changing", 80, "abc"), s.offer("turns", 81, "abc", by(service.RoundRobin))
	s.Write(slices.Concat(o.portals(), other.portals()))
	open := s.connect(o, kinds(), s.client, s.node)
	at := other.dial(service.ClusterIP, inet.IPv4)
	before := s.names(s.client, "tcp", at, 3)
	for _, a := range append(s.offered(), service.RoundRobin) {
		o.lead(s, "abc", by(a))
		s.update(o.changes())
		s.live("with "+a.String(), open)
		if a == service.RoundRobin {
			s.turns(s.client, o, "abc", service.ClusterIP, service.NodePort)
		}
		if next := s.names(s.client, "tcp", at, 1); next != before[:1] {
			s.Errorf("with %s: another Service is answered by %s after %s", a, next, before)
		}
		before = before[1:] + before[:1]
	}
	s.Node.Must(func() error { return s.Writer.Audit(s.Context()) })
}

// turnTime is for how long a Service changes its algorithm and its endpoints as fast as it can.
const turnTime = time.Second

// algorithmsTurn: packets that arrive at any moment of a change go to an endpoint.
func algorithmsTurn(s *spreading) {
	o := s.offer("changing", 80, "ab")
	s.Write(o.portals())
	all, changes := s.offered(), 0
	stop := s.load(o)
	for began := time.Now(); time.Since(began) < turnTime; changes++ {
		o.lead(s, "abc"[:2+changes%2], by(all[changes/2%len(all)]))
		s.Node.Must(func() error { return s.Writer.Update(context.Background(), o.changes()) })
	}
	stop()
	s.Logf("changed %d times", changes)
}
