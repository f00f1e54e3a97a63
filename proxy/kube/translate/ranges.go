package translate

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// sourceRanges are the clients that may use the load-balancer addresses of a Service. As with kube-proxy, ranges of one
// family say nothing of the other: a family without ranges is open to everyone.
type sourceRanges struct {
	listed []string
	valid  []netip.Prefix // merged
	wrong  bool           // others are listed
}

func rangesOf(svc *corev1.Service, on objectReport) sourceRanges {
	r := sourceRanges{listed: svc.Spec.LoadBalancerSourceRanges}
	for i, text := range r.listed {
		prefix, advice := parsePrefix(text)
		if advice != "" {
			on.add(fmt.Sprintf("spec.loadBalancerSourceRanges[%d]", i), text, advice)
			r.wrong = true
			continue
		}
		r.valid = append(r.valid, prefix)
	}
	r.valid = service.Merge(r.valid)
	return r
}

// close tells whether nobody may use an address: it has no range, and one that cannot be read may have been meant for
// it.
func (r sourceRanges) close(addr netip.Addr) bool {
	return r.wrong && !r.restrict(inet.FamilyOf(addr))
}

// restrict tells whether there are ranges of a family.
func (r sourceRanges) restrict(family inet.Family) bool {
	return slices.ContainsFunc(r.valid, within(family))
}

func within(family inet.Family) func(netip.Prefix) bool {
	return func(p netip.Prefix) bool { return inet.FamilyOf(p.Addr()) == family }
}

// admitEveryone tells whether the ranges that there are leave nobody out.
func (r sourceRanges) admitEveryone() bool {
	return !slices.ContainsFunc(r.valid, func(p netip.Prefix) bool { return p.Bits() > 0 })
}

// report reports families whose addresses are not served, and those that are open while another one is not.
func (r sourceRanges) report(
	served map[netip.Addr]service.Kind, refused []netip.Addr, on objectReport,
) {
	for _, family := range inet.Families() {
		of := func(a netip.Addr) bool { return inet.FamilyOf(a) == family }
		open := !r.restrict(family) && !r.admitEveryone() && balances(served, of)
		switch {
		case slices.ContainsFunc(refused, of):
			on.add("spec.loadBalancerSourceRanges", fmt.Sprint(r.listed), fmt.Sprintf("has no valid range of %[1]s, so the "+
				"load-balancer addresses of %[1]s are not served; correct one, or remove them all", family))
		case open:
			on.add("spec.loadBalancerSourceRanges", fmt.Sprint(r.listed), fmt.Sprintf("has no range of %[1]s, so everyone may "+
				"use the load-balancer addresses of %[1]s, as with kube-proxy; add the ranges of %[1]s that may, or %s/0 if that "+
				"is meant", family, family.Unspecified()))
		}
	}
}

// balances tells whether any load-balancer address is one of these.
func balances(served map[netip.Addr]service.Kind, of func(netip.Addr) bool) bool {
	for addr, kind := range served {
		if kind == service.LoadBalancerIP && of(addr) {
			return true
		}
	}
	return false
}
