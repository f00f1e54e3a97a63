package metrics

// Limits bound the series of Prometheus that grow with what tenants create. Everything beyond a limit is counted
// together, in series whose Service and endpoint are "other".
type Limits struct {
	Services   int // service ports with counters of their own, some seven series each
	Histograms int // of these, service ports with histograms of their own, some thirty series each
	Endpoints  int // endpoints of service ports with series of their own, some ten each; 0 = endpoints are not counted
}

// DefaultLimits suit a node whose Services are used by a part of the cluster only.
func DefaultLimits() Limits { return Limits{Services: 10_000, Histograms: 500, Endpoints: 2000} }

// other is the Service, and the endpoint, of what has no series of its own.
const other = "other"

// places counts who has series of its own within one limit. A namespace may hold at most placeShare times as many as
// are free, so that one that takes all it can get has eight ninths, and others still get some: the rule of
// quota.Account.
type places struct {
	max, used   int
	byNamespace map[string]int // by namespace
}

const placeShare = 8

func newPlaces(most int) places { return places{max: most, byNamespace: map[string]int{}} }

func (p *places) take(namespace string) bool {
	if p.byNamespace[namespace]+1 > placeShare*(p.max-p.used-1) {
		return false
	}
	p.used++
	p.byNamespace[namespace]++
	return true
}

func (p *places) give(namespace string) {
	p.used--
	if p.byNamespace[namespace]--; p.byNamespace[namespace] == 0 {
		delete(p.byNamespace, namespace)
	}
}

// place is how a service port or an endpoint is shown.
type place struct {
	own   bool // in series of its own
	among bool // a scrape has shown it among the others
}

// settle takes a place from all unless it is taken, and tells whether what was counted so far has been shown among the
// others, and is to stay there: no counter may go back.
func (p *place) settle(all *places, namespace string) (stays bool) {
	if p.own {
		return false
	}
	if p.own = all.take(namespace); p.own {
		stays, p.among = p.among, false
		return stays
	}
	p.among = true
	return false
}

// leave gives the place back, and tells whether what was counted is to stay among the others.
func (p *place) leave(all *places, namespace string) (stays bool) {
	if p.own {
		all.give(namespace)
	}
	stays = p.among
	*p = place{}
	return stays
}
