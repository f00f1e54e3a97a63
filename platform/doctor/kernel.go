package doctor

import "fmt"

func kernelChecks() []Check {
	return []Check{{
		Name: "kernel", Severity: Warning, System: linux, What: "a kernel version with known problems",
		Why: "See docs/limits.md: some features are missing or broken there.",
		Do:  "upgrade the kernel", run: kernelIsFit,
	}, {
		Name: "ip-forward", Severity: Error, System: linux, What: "forwarding is off in a family that Services use",
		Why: "The node drops packets that the kernel forwards from clients to endpoints on other hosts, and " +
			"packets from pods to other hosts; only a warning if the kernel carries no Service.",
		Do: "sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1", run: forwards,
	}, {
		Name: "route-localnet", Severity: Warning, System: linux, What: "route_localnet is on",
		Why: "Neighbours on the network can reach servers of this node that listen at 127.0.0.1 only. kube-proxy sets " +
			"it; portald does not need it.",
		Do: "sysctl -w net.ipv4.conf.all.route_localnet=0", run: loopbackIsPrivate,
	}, {
		Name: "bridge-nf", Severity: Error, System: linux,
		What: "pods on a bridge whose packets do not pass iptables, with Services that the kernel carries",
		Why: "The reply of an endpoint to a client on the same bridge goes past conntrack and is not translated back: " +
			"the connection hangs.",
		Do:  "modprobe br_netfilter; sysctl -w net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1",
		run: bridgesCallIPTables,
	}, {
		Name: "clock", Severity: Warning, System: linux, What: "the kernel's clock is not synchronised",
		Why: "The times of records cannot be compared with those of other nodes, and certificates may seem expired.",
		Do:  "timedatectl status; systemctl restart systemd-timesyncd, or chronyc tracking", run: clockIsRight,
	}}
}

// before tells whether the kernel is older than a version.
func (k Kernel) before(major, minor int) bool {
	return k.Major < major || k.Major == major && k.Minor < minor
}

func kernelIsFit(f *Facts) result {
	k := f.Kernel.Value
	if f.Kernel.Err != nil {
		return unknown(f.Kernel.Err)
	}
	out := result{ok: "Linux " + k.Release}
	demux, err := f.sysctl(earlyDemux)
	if k.before(6, 7) && err == nil && demux != "0" && f.Services.Value.carriedBy(false) {
		out.problems = append(out.problems, problem{
			seen: fmt.Sprintf("Linux %s with tcp_early_demux: a client with connections from one port to two addresses of "+
				"a Service may never be answered on the second", k.Release),
			do: "sysctl -w net.ipv4.tcp_early_demux=0, or Linux 6.7",
		})
	}
	if k.before(5, 13) && f.Daemon.Value.Writer == nftables {
		out.problems = append(out.problems, problem{seen: "Linux " + k.Release + ": the writer nftables needs 5.13",
			severity: Error})
	}
	return out
}

func forwards(f *Facts) result {
	out := result{ok: "forwarding is on"}
	for _, name := range []string{ipForward4, ipForward6} {
		if name == ipForward6 && !f.servesIPv6() {
			continue
		}
		switch value, err := f.sysctl(name); {
		case err != nil:
			return unknown(err)
		case value == "0":
			out.problems = append(out.problems, problem{seen: name + " is 0", do: "sysctl -w " + name + "=1"})
		}
	}
	if !f.Services.Value.carriedBy(true) {
		return out.as(Warning)
	}
	return out
}

// servesIPv6 tells whether any Service has an IPv6 address.
func (f *Facts) servesIPv6() bool {
	for _, s := range f.Services.Value {
		for _, fe := range s.Frontends {
			if fe.Kind == clusterIP && fe.Address.Addr().Is6() {
				return true
			}
		}
	}
	return false
}

func loopbackIsPrivate(f *Facts) result {
	switch value, err := f.sysctl(routeLocalnet); {
	case err != nil:
		return unknown(err)
	case value != "0":
		return wrong("", "%s is %s", routeLocalnet, value)
	}
	return well("%s is 0", routeLocalnet)
}

func bridgesCallIPTables(f *Facts) result {
	all, err := f.services()
	if err != nil {
		return unknown(err)
	}
	if f.Links.Err != nil {
		return unknown(f.Links.Err)
	}
	bridge, ports := f.podBridge()
	if bridge == "" || !all.carriedBy(true) {
		return well("no bridge with pods whose Services the kernel carries")
	}
	names := []string{bridgeNF4}
	if f.servesIPv6() {
		names = append(names, bridgeNF6)
	}
	for _, name := range names {
		if value, err := f.sysctl(name); err != nil || value == "0" {
			return wrong("", "%s is not 1, and %s has %d ports", name, bridge, ports)
		}
	}
	return well("packets on %s pass iptables", bridge)
}

// podBridge returns a bridge that has several veth interfaces, and how many; empty if there is none.
func (f *Facts) podBridge() (name string, ports int) {
	of := map[string]int{}
	for _, l := range f.Links.Value {
		if l.Kind == "veth" && l.Master != "" {
			of[l.Master]++
		}
	}
	for _, l := range f.Links.Value {
		if l.Kind == "bridge" && of[l.Name] > 1 && of[l.Name] > ports {
			name, ports = l.Name, of[l.Name]
		}
	}
	return name, ports
}

func clockIsRight(f *Facts) result {
	switch c := f.Clock.Value; {
	case f.Clock.Err != nil:
		return unknown(f.Clock.Err)
	case !c.Synchronized:
		return wrong("", "the kernel says that its clock is not synchronised")
	default:
		return well("synchronised, within %s", c.MaxError)
	}
}
