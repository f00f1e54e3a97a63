package iptables

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// endpoints makes the chain of a scope, and those of its endpoints that need one, and returns its name. First come
// those who were here before, then each endpoint takes its share of what the ones before it left.
//
// The kernel remembers the last 100 clients of an endpoint, or as many as its module xt_recent is told to.
func (s *spread) endpoints(scope service.Scope) string {
	name := s.scoped(s.owner, scope)
	if _, ok := s.made[name]; ok {
		return name
	}
	all := s.pool.Of(scope)
	var b strings.Builder
	if s.pool.Affinity > 0 {
		for _, e := range all {
			sep := s.endpoint(s.owner, e.Addr)
			fmt.Fprintf(&b, "-A %s -m recent --rcheck --seconds %d --reap %s-j %s\n", name, seconds(s.pool.Affinity), s.recent(sep), sep)
		}
	}
	for i, e := range all {
		if match := share(len(all) - i); s.alone(e) {
			fmt.Fprintf(&b, "-A %s %s-j %s\n", name, match, s.one(e))
		} else {
			fmt.Fprintf(&b, "-A %s -p %s %s-j %s\n", name, s.owner.Protocol, match, to(e))
		}
	}
	s.made[name] = b.String()
	return name
}

// alone tells whether an endpoint has a chain of its own: one a rule in the chain of all costs a tenth.
func (s *spread) alone(e portal.Endpoint) bool { return e.Here || s.pool.Affinity > 0 }

// one makes the chain of an endpoint and returns its name. An endpoint that dials its own Service would answer itself,
// were it not for the mark.
func (s *spread) one(e portal.Endpoint) string {
	name := s.endpoint(s.owner, e.Addr)
	var b strings.Builder
	if e.Here {
		fmt.Fprintf(&b, "-A %s %s-j %s\n", name, exactly("-s", e.Addr.Addr()), s.markMasq)
	}
	remember := ""
	if s.pool.Affinity > 0 {
		remember = "-m recent --set " + s.recent(name)
	}
	fmt.Fprintf(&b, "-A %s -p %s %s-j %s\n", name, s.owner.Protocol, remember, to(e))
	s.made[name] = b.String()
	return name
}

func to(e portal.Endpoint) string { return "DNAT --to-destination " + e.Addr.String() }

// recent names the kernel's list of an endpoint's clients.
func (s *spread) recent(list string) string {
	return "--name " + list + " --mask " + s.everyBit + " --rsource "
}

// seconds is at least one, which is what the kernel takes.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// share matches one in n, in the kernel's steps of one in 2^31 as iptables-save prints them.
func share(n int) string {
	if n == 1 {
		return ""
	}
	const steps = 1 << 31
	p := math.Round(steps/float64(n)) / steps
	return "-m statistic --mode random --probability " + strconv.FormatFloat(p, 'f', 11, 64) + " "
}
