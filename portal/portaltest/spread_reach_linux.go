package portaltest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// reach says which endpoints a client reaches at some frontends of an offer.
type reach struct {
	from  *Party
	kinds []service.Kind
	by    string // the endpoints that answer, every one of them; empty = silence
	as    look
}

// look is the client address that endpoints see.
type look uint8

const (
	own         look = iota // the client's address, or the node's for an endpoint that reaches itself
	masqueraded             // the node's address
	anyone
)

// expect checks all of these concurrently, in both families and protocols. Clients of one frontend that reach several
// endpoints ask one after the other: with round robin each might otherwise meet one endpoint alone.
func (s *spreading) expect(o *offer, all ...reach) {
	s.Helper()
	var wg sync.WaitGroup
	turns := map[string]*sync.Mutex{}
	for _, l := range all {
		for _, kind := range l.kinds {
			for _, family := range inet.Families() {
				for _, proto := range protocols() {
					frontend := fmt.Sprint(kind, family, proto)
					if turns[frontend] == nil {
						turns[frontend] = &sync.Mutex{}
					}
					turn := turns[frontend]
					wg.Go(func() {
						if len(l.by) > 1 {
							turn.Lock()
							defer turn.Unlock()
						}
						s.check(o, l, kind, family, proto.String())
					})
				}
			}
		}
	}
	wg.Wait()
}

// check asks so often that an endpoint gets too few connections by chance once in a million times.
func (s *spreading) check(o *offer, l reach, kind service.Kind, family inet.Family, network string) {
	s.Helper()
	addr := o.dial(kind, family)
	what := fmt.Sprintf("the %s asks %s of %s, %s %s", l.from.Name, kind, o.name, network, addr)
	if l.by == "" {
		s.silent(what, l.from, network, addr)
		return
	}
	counts := map[string]int{}
	for _, r := range Asks(l.from.Namespace, network, addr, netip.Addr{}, 20*len(l.by), answerTime) {
		if want := s.seen(l, r, family); r.Saw != want {
			s.Errorf("%s: %s saw %s, want %s", what, r.By, r.Saw, want)
			return
		}
		counts[strings.TrimPrefix(r.Came, Answered)+r.By]++
	}
	for name := range counts {
		if !strings.Contains(l.by, name) || name == "" {
			s.Errorf("%s: answers %v, want %s alone", what, counts, l.by)
			return
		}
	}
	few := func(name string) bool { return counts[name] < len(l.by) }
	if slices.ContainsFunc(strings.Split(l.by, ""), few) {
		s.Errorf("%s: answers %v, want at least %d of each of %s", what, counts, len(l.by), l.by)
	}
}

// silent asks once. For the node's own datagrams, a drop may look like a refusal.
func (s *spreading) silent(what string, from *Party, network, addr string) {
	s.Helper()
	got := Asks(from.Namespace, network, addr, netip.Addr{}, 1, silenceTime)[0]
	if got.Came == Refused && from == s.node && network == "udp" {
		return
	}
	if got.Came != Silence {
		s.Errorf("%s: %v, want silence", what, got)
	}
}

// seen is the client address that the endpoint of a reply must have seen.
func (s *spreading) seen(l reach, r Reply, family inet.Family) netip.Addr {
	if r.By == "" || l.as == anyone {
		return r.Saw
	}
	if by := s.party(r.By); l.as == masqueraded || by == l.from {
		return by.Gateway.Of(family)
	}
	return l.from.Addrs.Of(family)
}
