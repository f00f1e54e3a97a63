package iptables

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// endpoints makes the chain of a translation's endpoints, and a chain for each endpoint that needs one, and returns the
// first's name. Clients with affinity come first, then each endpoint takes its share of what the ones before it left.
//
// The kernel remembers the last 100 clients of an endpoint, or as many as its module xt_recent is told to.
func (s *spread) endpoints(t portal.Translation) string {
	name := s.scoped(s.owner, t.Scope)
	if _, ok := s.made[name]; ok {
		return name
	}
	all := t.Endpoints
	var b strings.Builder
	lead := func(match string, e portal.Endpoint) {
		if e.MayHairpin {
			fmt.Fprintf(&b, "-A %s %s-j %s\n", name, match, s.one(e))
		} else {
			fmt.Fprintf(&b, "-A %s -p %s %s%s-j %s\n", name, s.owner.Protocol, match, s.remember(e), to(e))
		}
	}
	if s.pool.Affinity > 0 {
		for _, e := range all {
			lead(fmt.Sprintf("-m recent --rcheck --seconds %d --reap %s", seconds(s.pool.Affinity), s.recent(e)), e)
		}
	}
	for i, e := range all {
		lead(share(s.pool.Algorithm, len(all)-i), e)
	}
	s.made.add(name, atService, b.String())
	return name
}

// one makes the chain of an endpoint that may hairpin, and returns its name. Its first rule marks such flows to be
// masqueraded. Other endpoints have no chain: with ten thousand of them and affinity, chains took iptables a quarter
// of a minute.
func (s *spread) one(e portal.Endpoint) string {
	name := s.endpoint(s.owner, e.Addr)
	s.made[name] = chain{atEndpoint, fmt.Sprintf("-A %s %s-j %s\n-A %s -p %s %s-j %s\n", name,
		exactly("-s", e.Addr.Addr()), s.markMasq, name, s.owner.Protocol, s.remember(e), to(e))}
	return name
}

func to(e portal.Endpoint) string { return "DNAT --to-destination " + e.Addr.String() }

// remember adds the client to the kernel's list of an endpoint's clients, with affinity.
func (s *spread) remember(e portal.Endpoint) string {
	if s.pool.Affinity == 0 {
		return ""
	}
	return "-m recent --set " + s.recent(e)
}

// recent names that list.
func (s *spread) recent(e portal.Endpoint) string {
	return "--name " + s.endpoint(s.owner, e.Addr) + " --mask " + s.everyBit + " --rsource "
}

// seconds rounds up, to at least one: the least that the kernel takes.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// share matches one in n flows: each n-th, or by chance in the kernel's steps of 1/2^31 as iptables-save prints them.
func share(by service.Algorithm, n int) string {
	switch {
	case n == 1:
		return ""
	case by == service.RoundRobin:
		return "-m statistic --mode nth --every " + strconv.Itoa(n) + " --packet 0 "
	}
	const steps = 1 << 31
	p := math.Round(steps/float64(n)) / steps
	return "-m statistic --mode random --probability " + strconv.FormatFloat(p, 'f', 11, 64) + " "
}
