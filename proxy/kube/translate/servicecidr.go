package translate

import (
	"net/netip"
	"slices"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
)

// trimmedServiceCIDR is a ServiceCIDR: ranges from which the cluster gives Services their addresses.
type trimmedServiceCIDR struct {
	identity
	ranges   []netip.Prefix
	problems []Problem
}

func trimServiceCIDR(o *networkingv1.ServiceCIDR) *trimmedServiceCIDR {
	out := &trimmedServiceCIDR{identity: identityOf(KindServiceCIDR, o)}
	var r report
	on := r.on(out.id)
	for _, text := range o.Spec.CIDRs {
		prefix, advice := parsePrefix(text)
		if advice == "" && prefix.Bits() == 0 {
			advice = "holds all addresses, and is ignored; write the range of Services alone"
		}
		if advice != "" {
			on.add("spec.cidrs", text, advice)
			continue
		}
		out.ranges = append(out.ranges, prefix)
	}
	out.problems = on.all()
	return out
}

// rangeWatchers are called when the ranges of Services change.
type rangeWatchers struct {
	mu       sync.Mutex // held during calls, so that states arrive in order
	all      []func([]netip.Prefix)
	ranges   []netip.Prefix // as of the last call
	problems []Problem      // as they were last logged
}

// WatchServiceCIDRs calls f with the ranges of all ServiceCIDRs, ordered and none within another: at once if there are
// any, and then whenever they change. Calls come one at a time; f must neither block nor call WatchServiceCIDRs.
func (c *Cache) WatchServiceCIDRs(f func([]netip.Prefix)) {
	w := &c.rangeWatchers
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, f)
	if len(w.ranges) > 0 {
		f(w.ranges)
	}
}

// serviceCIDRs are the ranges of all ServiceCIDRs, and what is wrong with these.
func (c *Cache) serviceCIDRs() (ranges []netip.Prefix, problems []Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.keys(KindServiceCIDR)
	slices.SortFunc(keys, Key.Compare)
	for _, key := range keys {
		ranges, problems = append(ranges, c.ranges[key].ranges...), append(problems, c.ranges[key].problems...)
	}
	return outermost(ranges), problems
}

// outermost are those that are within no other, in order.
func outermost(all []netip.Prefix) (out []netip.Prefix) {
	slices.SortFunc(all, netip.Prefix.Compare) // of two that overlap the wider comes first
	for _, p := range all {
		if n := len(out); n == 0 || !out[n-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}

// notifyServiceCIDRs calls the watchers if the ranges changed since the last call.
func (c *Cache) notifyServiceCIDRs() {
	w := &c.rangeWatchers
	w.mu.Lock()
	defer w.mu.Unlock()
	ranges, problems := c.serviceCIDRs()
	for _, p := range problems {
		if !slices.Contains(w.problems, p) {
			c.log.Warn(p.Error())
		}
	}
	w.problems = problems
	if slices.Equal(ranges, w.ranges) {
		return
	}
	w.ranges = ranges
	for _, f := range w.all {
		f(ranges)
	}
}
