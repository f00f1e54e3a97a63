package doctor

import (
	"fmt"
	"net/netip"
)

func routeChecks() []Check {
	return []Check{{
		Name: "service-route", Severity: Error, System: linux, What: "the node has no route to addresses of Services",
		Why: "The node's own connections to them fail before any rule sees a packet: the kernel routes first. The " +
			"default route is enough.",
		Do: "ip route add SERVICE-CIDR dev UPLINK", run: servicesAreRouted,
	}, {
		Name: "service-route-elsewhere", Severity: Warning, System: linux,
		What: "a specific route sends packets for Service addresses to a different interface than the default route",
		Why: "The node's own connections to them get the source address of that interface, which endpoints may not be " +
			"able to answer; without portald's rules the packets leave there. Often a VPN, or a network that overlaps " +
			"the Service CIDR.",
		Do: "ip route get ADDRESS; ip route del CIDR, or choose another Service CIDR", run: servicesGoTheDefaultWay,
	}, {
		Name: "service-address-local", Severity: Warning, System: linux,
		What: "an interface of the node has the address of a Service",
		Why: "Packets that no rule translates reach servers of this node, connections from the node have the " +
			"Service's address as source, and the node answers ARP for it.",
		Do: "ip address del ADDRESS dev INTERFACE", run: servicesAreNotLocal,
	}}
}

func servicesAreRouted(f *Facts) result {
	if err := f.routesKnown(); err != nil {
		return unknown(err)
	}
	out := result{ok: fmt.Sprintf("%d addresses are routed", len(f.Routes.Value.Services))}
	failed := map[string][]netip.Addr{}
	for _, r := range f.Routes.Value.Services {
		if r.Failed != "" {
			failed[r.Failed] = append(failed[r.Failed], r.To)
		}
	}
	for _, why := range sortedKeys(failed) {
		out.problems = append(out.problems, problem{
			seen: fmt.Sprintf("%s: %s", why, few(failed[why])),
			do:   fmt.Sprintf("ip route get %s; ip route add SERVICE-CIDR dev UPLINK", failed[why][0]),
		})
	}
	return out
}

// routesKnown returns why routes to Services are not known.
func (f *Facts) routesKnown() error {
	if _, err := f.services(); err != nil {
		return err
	}
	return f.Routes.Err
}

func servicesGoTheDefaultWay(f *Facts) result {
	if err := f.routesKnown(); err != nil {
		return unknown(err)
	}
	away := map[string][]netip.Addr{}
	for _, r := range f.Routes.Value.Services {
		usual, known := f.Routes.Value.Default[r.To.Is6()]
		if r.Failed == "" && !r.Local && known && usual.Failed == "" && r.Device != usual.Device {
			by := fmt.Sprintf("%s with source address %s, the default route by %s", r.Device, r.Source, usual.Device)
			away[by] = append(away[by], r.To)
		}
	}
	out := result{ok: "addresses of Services are routed as the default route is"}
	for _, by := range sortedKeys(away) {
		out.problems = append(out.problems, problem{seen: fmt.Sprintf("%s by %s", few(away[by]), by),
			do: fmt.Sprintf("ip route get %s; ip route del CIDR", away[by][0])})
	}
	return out
}

func servicesAreNotLocal(f *Facts) result {
	if err := f.routesKnown(); err != nil {
		return unknown(err)
	}
	if f.Daemon.Value.Writer == ipvs {
		return well("IPVS needs addresses of Services at its interface")
	}
	if f.Links.Err != nil {
		return unknown(f.Links.Err)
	}
	out := result{ok: "no interface has an address of a Service"}
	for _, r := range f.Routes.Value.Services {
		if device := f.deviceWith(r.To); device != "" {
			out.problems = append(out.problems, problem{seen: fmt.Sprintf("%s is an address of %s", r.To, device),
				do: fmt.Sprintf("ip address del %s dev %s", r.To, device)})
		}
	}
	return out.firstOf("addresses")
}
