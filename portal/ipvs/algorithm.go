package ipvs

import (
	"sync"

	"github.com/portald/portald/portal/service"
)

// algorithms are the schedulers that do what service ports ask for. mh, Maglev, has the same table on all nodes but for
// the order in which endpoints came, which decides some 0.2 % of it with five of them; sh has a table of their
// positions, which any change moves. No scheduler is random.
var algorithms = map[service.Algorithm]string{
	service.RoundRobin: "rr", service.LeastConnections: "lc", service.SourceHash: "mh",
}

// schedulerOf is the scheduler of a pool that chooses endpoints by an algorithm: the Options' unless it asks for one.
// The Options' mh spreads the connections of a client too, as it does for kube-proxy.
func (o *Options) schedulerOf(a service.Algorithm) settings {
	own, chosen := algorithms[a]
	s := settings{scheduler: own}
	if !chosen {
		s.scheduler = o.Scheduler
	}
	if s.scheduler == "mh" || s.scheduler == "sh" {
		s.flags |= fallback
	}
	if s.scheduler == "mh" && !chosen {
		s.flags |= mhPort
	}
	return s
}

// tries looks for the schedulers of algorithms, each when it is asked for, and once.
func tries(has func(scheduler string) bool) map[string]func() bool {
	out := map[string]func() bool{}
	for _, name := range algorithms {
		out[name] = sync.OnceValue(func() bool { return has(name) })
	}
	return out
}

// Offers tells whether there is a scheduler that does what an algorithm does, if the kernel has them all.
func Offers(a service.Algorithm) bool { return a == service.AlgorithmDefault || algorithms[a] != "" }

// Offers implements portal.Writer.
func (w *Writer) Offers(a service.Algorithm) bool {
	return Offers(a) && (a == service.AlgorithmDefault || w.tried[algorithms[a]]())
}
