package translate

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/portal/service"
)

// frontends are the addresses of a Service, which all its ports share.
type frontends struct {
	addrs        map[netip.Addr]service.Kind
	node         []netip.Addr // the unspecified address of each family that node ports are served in
	sourceRanges []netip.Prefix
}

// frontendsOf returns the addresses of a Service. One that is listed twice counts once: as ClusterIP before
// load-balancer address before external IP, so that source ranges apply to an address that is both of the latter.
func frontendsOf(svc *corev1.Service, opts Options, on objectReport) *frontends {
	f := &frontends{addrs: map[netip.Addr]service.Kind{}}
	f.addClusterIPs(svc, opts, on)
	refused := f.addLoadBalancer(svc, opts, on)
	f.addExternalIPs(svc, opts, refused, on)
	f.node = nodeFamilies(svc, f.addrs, opts, on)
	return f
}

// of returns the exposures of one port, ordered by frontend.
func (f *frontends) of(sp servicePort) []service.Exposure {
	out := make([]service.Exposure, 0, len(f.addrs)+len(f.node))
	expose := func(addr netip.Addr, port uint16, kind service.Kind) {
		out = append(out, service.Exposure{
			Frontend: service.Frontend{Addr: netip.AddrPortFrom(addr, port), Protocol: sp.name.Protocol},
			Kind:     kind,
		})
	}
	for addr, kind := range f.addrs {
		expose(addr, sp.number, kind)
	}
	if sp.nodePort != 0 {
		for _, addr := range f.node {
			expose(addr, sp.nodePort, service.NodePort)
		}
	}
	slices.SortFunc(out, func(a, b service.Exposure) int { return a.Frontend.Compare(b.Frontend) })
	return out
}

// add adds an address of a supported family, unless it is refused, which is reported, or known already.
func (f *frontends) add(text, field string, kind service.Kind, opts Options, on objectReport) {
	addr, advice := parseAddr(text)
	if advice != "" {
		on.add(field, text, advice)
		return
	}
	if _, has := f.addrs[addr]; !has && opts.supports(addr) {
		f.addrs[addr] = kind
	}
}

func (f *frontends) addClusterIPs(svc *corev1.Service, opts Options, on objectReport) {
	if len(svc.Spec.ClusterIPs) == 0 && svc.Spec.ClusterIP != "" {
		f.add(svc.Spec.ClusterIP, "spec.clusterIP", service.ClusterIP, opts, on)
	}
	for i, text := range svc.Spec.ClusterIPs {
		f.add(text, fmt.Sprintf("spec.clusterIPs[%d]", i), service.ClusterIP, opts, on)
	}
}

// addLoadBalancer adds the addresses that a load balancer passes on unchanged. It returns those that it refused because
// of their source ranges: they must not be served as external IPs, without the ranges, either. The status of a Service
// that is not of type LoadBalancer (any more) is outdated, and ignored.
func (f *frontends) addLoadBalancer(svc *corev1.Service, opts Options, on objectReport) (refused []netip.Addr) {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	ranges := rangesOf(svc, on)
	f.sourceRanges = ranges.valid
	for i, ingress := range svc.Status.LoadBalancer.Ingress {
		if ingress.IP == "" || ingress.IPMode != nil && *ingress.IPMode != corev1.LoadBalancerIPModeVIP {
			continue // a host name, or a load balancer that uses node ports
		}
		if addr, advice := parseAddr(ingress.IP); advice == "" && ranges.close(addr) {
			refused = append(refused, addr)
			continue
		}
		f.add(ingress.IP, fmt.Sprintf("status.loadBalancer.ingress[%d].ip", i), service.LoadBalancerIP, opts, on)
	}
	ranges.report(f.addrs, refused, on)
	return refused
}

func (f *frontends) addExternalIPs(svc *corev1.Service, opts Options, refused []netip.Addr, on objectReport) {
	for i, text := range svc.Spec.ExternalIPs {
		field := fmt.Sprintf("spec.externalIPs[%d]", i)
		addr, advice := parseAddr(text)
		switch {
		case advice != "":
			on.add(field, text, advice)
		case slices.Contains(refused, addr): // reported with the source ranges
		case len(opts.ExternalIPs) == 0:
			on.add(field, text, "is not served: external IPs are disabled, because a Service can claim any address with them; "+
				"allow their CIDRs with --external-ip-cidrs")
		case !slices.ContainsFunc(opts.ExternalIPs, func(p netip.Prefix) bool { return p.Contains(addr) }):
			on.add(field, text, "is not served: it is in none of the CIDRs of --external-ip-cidrs")
		default:
			f.add(text, field, service.ExternalIP, opts, on)
		}
	}
}

// nodeFamilies returns the unspecified address of each family of the Service: by spec.ipFamilies, else by its
// ClusterIPs, else IPv4 if it is supported. The API server chooses the same defaults.
func nodeFamilies(
	svc *corev1.Service, addrs map[netip.Addr]service.Kind, opts Options, on objectReport,
) []netip.Addr {
	var v4, v6 bool
	for i, family := range svc.Spec.IPFamilies {
		switch family {
		case corev1.IPv4Protocol:
			v4 = true
		case corev1.IPv6Protocol:
			v6 = true
		default:
			on.add(fmt.Sprintf("spec.ipFamilies[%d]", i), string(family), "is not an address family; write IPv4 or IPv6")
		}
	}
	if !v4 && !v6 {
		for addr, kind := range addrs {
			v4 = v4 || kind == service.ClusterIP && addr.Is4()
			v6 = v6 || kind == service.ClusterIP && addr.Is6()
		}
	}
	if !v4 && !v6 {
		v4, v6 = !opts.NoIPv4, opts.NoIPv4
	}
	var out []netip.Addr
	if v4 && !opts.NoIPv4 {
		out = append(out, netip.IPv4Unspecified())
	}
	if v6 && !opts.NoIPv6 {
		out = append(out, netip.IPv6Unspecified())
	}
	return out
}
