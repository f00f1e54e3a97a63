package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// localPolicies counts the service ports with a Local traffic policy that have endpoints, but none on this node:
// packets of their clients are dropped here.
type localPolicies struct {
	families []string
	gauges   *prometheus.GaugeVec
	each     []prometheus.Gauge // internal and external of each family

	mu      sync.Mutex
	lacking map[service.PortName]lacks // guarded by mu; those that lack something
}

// lacks has a bit for each gauge: set where the service port counts.
type lacks uint8

func (l *localPolicies) init(families []string) {
	l.families = families
	l.lacking = map[service.PortName]lacks{}
	l.gauges = gauges(syncPrefix+"no_local_endpoints_total",
		"Service ports with a Local traffic policy and endpoints, none of them on this node.", "ip_family", "traffic_policy")
	for _, f := range families {
		l.each = append(l.each, l.gauges.WithLabelValues(f, "internal"), l.gauges.WithLabelValues(f, "external"))
	}
}

// replace sets all service ports.
func (l *localPolicies) replace(ports []*service.Port) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lacking = map[service.PortName]lacks{}
	counts := make([]int, len(l.each))
	for _, p := range ports {
		now := l.of(p)
		if now == 0 {
			continue
		}
		l.lacking[p.Name] = now
		for i := range counts {
			counts[i] += now.bit(i)
		}
	}
	for i, n := range counts {
		l.each[i].Set(float64(n))
	}
}

// update applies changes of service ports. Costs O(the changes).
func (l *localPolicies) update(changes []service.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		was, now := l.lacking[c.Name], l.of(c.Port)
		if now == 0 {
			delete(l.lacking, c.Name)
		} else {
			l.lacking[c.Name] = now
		}
		for i, g := range l.each {
			g.Add(float64(now.bit(i) - was.bit(i)))
		}
	}
}

func (l *localPolicies) of(p *service.Port) (out lacks) {
	if p == nil || !p.InternalLocal && !p.ExternalLocal {
		return 0
	}
	for i, family := range l.families {
		if !onlyElsewhere(p.Endpoints, family) {
			continue
		}
		if p.InternalLocal {
			out |= 1 << (2 * i)
		}
		if p.ExternalLocal {
			out |= 1 << (2*i + 1)
		}
	}
	return out
}

// onlyElsewhere tells whether a family has usable endpoints, but none on this node.
func onlyElsewhere(endpoints []service.Endpoint, family string) bool {
	some := false
	for _, e := range endpoints {
		if inet.FamilyOf(e.Addr.Addr()).String() != family || !e.Ready && !(e.Serving && e.Terminating) {
			continue
		}
		if e.Local {
			return false
		}
		some = true
	}
	return some
}

func (l lacks) bit(i int) int { return int(l >> i & 1) }
