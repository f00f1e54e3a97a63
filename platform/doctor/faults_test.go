package doctor

import (
	"errors"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/hns"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netfilter"
)

// set plants a value of a sysctl.
func set(name, value string) func(*Facts) {
	return func(f *Facts) { f.Sysctls[name] = Fact[string]{Value: value} }
}

// chains plants a table that has chains.
func chains(program netfilter.Program, family, table string, names ...string) func(*Facts) {
	return func(f *Facts) {
		t := &netfilter.Table{Program: program, Family: family, Name: table}
		for _, name := range names {
			t.Chains = append(t.Chains, &netfilter.Chain{Table: t, Name: name})
		}
		f.Rules.Value.Tables = append(f.Rules.Value.Tables, t)
	}
}

// rule plants a rule of others in a base chain of its own.
func rule(table, chain string, hook netfilter.Hook, kind netfilter.Kind) func(*Facts) {
	return func(f *Facts) {
		t := &netfilter.Table{Program: netfilter.IPTablesNFT, Family: "ip", Name: table}
		t.Chains = []*netfilter.Chain{{Table: t, Name: chain, Hook: hook, Type: "filter", Priority: -300,
			Policy: netfilter.Accept, Rules: []*netfilter.Rule{{Text: "-A " +
				"" + chain, Actions: []netfilter.Action{{Kind: kind}}}}}}
		f.Rules.Value.Tables = append(f.Rules.Value.Tables, t)
	}
}

func links(change func([]Link) []Link) func(*Facts) {
	return func(f *Facts) { f.Links.Value = change(f.Links.Value) }
}

// connects plants a program where sockets connect.
func connects(name string) func(*Facts) {
	return func(f *Facts) { f.Connects.Value = []ConnectProgram{{Hook: "connect4", Name: name}} }
}

// kernelMode makes the kernel carry all Services, with kube-proxy's names.
func kernelMode(f *Facts) {
	f.Daemon.Value.Mode = "iptables"
	for i := range f.Services.Value {
		s := &f.Services.Value[i]
		s.Kernel = true
		for j := range s.Frontends {
			s.Frontends[j].ProxyPort = 0
		}
	}
}

func faults() []fault {
	slow := IPTables{Took: 1500 * time.Millisecond}
	hangs := IPTables{Failed: errors.New("run iptables -S: no answer within 1.8s"), Took: 2 * time.Second}
	listens := Listener{Protocol: "tcp", Address: addrPort("0.0.0.0:30080"), Inode: 5, PID: 99, Process: "nginx"}
	return []fault{
		{"daemon", Error, "does not answer", func(f *Facts) {
			*f = Facts{System: linux, Daemon: Fact[Daemon]{Err: ErrNotRunning}, Sysctls: f.Sysctls, Rules: f.Rules,
				Clock: f.Clock, Process: Fact[Process]{Err: ErrNotRunning}, Kernel: f.Kernel, Routes: f.Routes, Links: f.Links}
		}},
		{"ready", Error, "not ready", func(f *Facts) { f.Daemon.Value.Ready = false }},
		{"ready", Warning, "it started", func(f *Facts) { f.Daemon.Value.Ready, f.Daemon.Value.Started = false, time.Now() }},
		{"services", Warning, "portald explain shop/cart", func(f *Facts) {
			f.Services.Value[0].Problem = "set " +
				"aside"
		}},
		{"services", Warning, "10.96.0.10:80 is held by shop/old", func(f *Facts) {
			f.Services.Value[0].Frontends[0].Holder = "shop/old"
		}},

		{"foreign-rules", Error, "drop in hook prerouting", rule("raw", "PREROUTING", netfilter.Prerouting, netfilter.Drop)},
		{"foreign-rules", Error, "translate in hook output", rule("nat", "OUTPUT", netfilter.Output, netfilter.Translate)},
		{"foreign-rules", Error, "reject in hook input", rule("filter", "INPUT", netfilter.Input, netfilter.Reject)},
		{"foreign-rules", Error, "drop in hook forward", rule("filter", "FORWARD", netfilter.Forward, netfilter.Drop)},
		{"foreign-rules", Warning, "queue", rule("filter", "FORWARD", netfilter.Forward, netfilter.Queue)},

		{"foreign-rules", Note, "nft hangs, and 1 more", func(f *Facts) {
			f.Rules.Value.Unread = []string{"nft hangs", "iptables-save too"}
		}},

		{"socket-load-balancer", Warning, "Cilium translates in clients' sockets: cil_sock4_conne at connect4",
			connects("cil_sock4_conne")},
		{"socket-load-balancer", Warning, "Cilium translates in clients' sockets: sock4_connect", func(f *Facts) {
			connects("sock4_connect")(f)
			f.Links.Value = append(f.Links.Value, Link{Name: "cilium_host", Up: true, MTU: 1500})
		}},
		{"socket-load-balancer", Warning, "Cilium translates in clients' sockets: connect4", func(f *Facts) {
			connects("")(f)
			f.Links.Value = append(f.Links.Value, Link{Name: "cilium_host", Up: true, MTU: 1500})
		}},
		{"socket-load-balancer", Warning, "Calico translates in clients' sockets: calico_connect_",
			connects("calico_connect_")},
		{"socket-load-balancer", Note, "of an unknown owner: tetra_connect at connect4", connects("tetra_connect")},
		{"socket-load-balancer", Note, "of an unknown owner: connect4", connects("")},
		{"socket-load-balancer", Note, "or in clients' sockets: not permitted", func(f *Facts) {
			f.Connects.Err = errors.New("not permitted")
			f.Links.Value = append(f.Links.Value, Link{Name: "cilium_host", Up: true, MTU: 1500})
		}},
		{"socket-load-balancer", Note, "cilium_host: Cilium may translate", links(func(l []Link) []Link {
			return append(l, Link{Name: "cilium_host", Up: true, MTU: 1500})
		})},

		{"xtables-lock", Error, "held by firewalld (pid 12)", func(f *Facts) {
			f.XtablesLock.Value = Lock{Path: "/run/xtables.lock", By: "firewalld (pid 12)", Held: time.Second}
		}},
		{"iptables", Error, "no answer", func(f *Facts) { f.IPTables.Value = hangs }},
		{"iptables", Warning, "1.5s", func(f *Facts) { f.IPTables.Value = slow }},
		{"iptables", Note, "portald writes by nftables", func(f *Facts) {
			f.IPTables.Value, f.Daemon.Value.Writer = hangs, "nftables"
			f.Rules.Value = &netfilter.Ruleset{}
			chains(netfilter.NFTables, "ip", "portald")(f)
		}},
		{"rules-changed", Warning, "2 times, the last 3m0s ago: the table is missing; lately by nft (pid 7); it was " +
			"made good", func(f *Facts) {
			f.Daemon.Value.Disturbed = Disturbed{Times: 2, Last: time.Now().Add(-3 * time.Minute),
				Found: "the table is missing", By: []string{"nft (pid 7)"}}
		}},
		{"rules-changed", Error, "the table is missing; not made good yet", func(f *Facts) {
			f.Daemon.Value.Disturbed = Disturbed{Times: 1, Last: time.Now(), Found: "the table is missing", Missing: true}
		}},
		{"rules", Error, "no chain or table", func(f *Facts) { f.Rules.Value = &netfilter.Ruleset{} }},
		{"rules", Error, "no rule of PREROUTING in iptables table ip nat", func(f *Facts) {
			for _, c := range f.Rules.Value.Tables[0].Chains {
				if c.Name == "PREROUTING" {
					c.Rules = nil
				}
			}
		}},
		{"kube-proxy-rules", Error, "KUBE-SERVICES", chains(netfilter.IPTablesNFT, "ip", "nat", "KUBE-SERVICES")},
		{"kube-proxy-rules", Error, "KUBE-SEP-X", chains(netfilter.IPTablesLegacy, "ip6", "nat", "KUBE-SEP-X")},
		{"kube-proxy-rules", Error, "table ip kube-proxy", chains(netfilter.NFTables, "ip", "kube-proxy")},
		{"kube-proxy-rules", Error, "table ip kube-proxy", func(f *Facts) { // the iptables chains are portald's
			kernelMode(f)
			chains(netfilter.NFTables, "ip", "kube-proxy")(f)
		}},
		{"kube-proxy-process", Error, "pid 4711", func(f *Facts) { f.KubeProxies.Value = []int{4711} }},
		{"leftovers", Warning, "table inet portald", chains(netfilter.NFTables, "inet", "portald")},
		{"leftovers", Warning, "table ip portald-0a1b2c", func(f *Facts) {
			chains(netfilter.IPTablesNFT, "ip", "nat", "PORTALD-0A1B2C-SERVICES")(f)
			chains(netfilter.NFTables, "ip", "portald-0a1b2c")(f)
		}},
		{"leftovers", Warning, "both variants", func(f *Facts) {
			f.Rules.Value.Tables[1].Program = netfilter.IPTablesLegacy
		}},
		{"iptables-variant", Warning, "KUBE-KUBELET-CANARY (iptables-legacy table ip mangle)",
			chains(netfilter.IPTablesLegacy, "ip", "mangle", "KUBE-KUBELET-CANARY")},
		{"ipvs-leftovers", Warning, "TCP 10.96.0.1:443", func(f *Facts) {
			f.IPVS.Value.Servers = []string{"TCP " +
				"10.96.0.1:443"}
		}},
		{"ipvs-leftovers", Warning, "ip link delete kube-ipvs0", links(func(l []Link) []Link {
			return append(l, Link{Name: "kube-ipvs0", Kind: "dummy", Addresses: []netip.Addr{addr("10.96.0.99")}})
		})},
		{"ipvs-modules", Error, "not loaded", func(f *Facts) { f.Daemon.Value.Writer = "ipvs" }},

		{"kernel", Warning, "tcp_early_demux", func(f *Facts) { f.Kernel.Value = Kernel{"6.1.0", 6, 1} }},
		{"ip-forward", Error, "net.ipv4.ip_forward=1", set(ipForward4, "0")},
		{"ip-forward", Error, "net.ipv6.conf.all.forwarding=1", set(ipForward6, "0")},
		{"ip-forward", Warning, "net.ipv4.ip_forward=1", func(f *Facts) {
			set(ipForward4, "0")(f)
			f.Services.Value = f.Services.Value[:1]
		}},
		{"route-localnet", Warning, "is 1", set(routeLocalnet, "1")},
		{"bridge-nf", Error, "cni0 has 2 ports", set(bridgeNF4, "0")},
		{"bridge-nf", Error, "bridge-nf-call-ip6tables is not 1", func(f *Facts) {
			f.Sysctls[bridgeNF6] = Fact[string]{Err: errors.New("no such file")}
		}},
		{"clock", Warning, "not synchronised", func(f *Facts) { f.Clock.Value.Synchronized = false }},

		{"conntrack-room", Warning, "80 of 100", func(f *Facts) { f.Conntrack.Value.Count = 80 }},
		{"conntrack-room", Error, "nf_conntrack_max=200", func(f *Facts) { f.Conntrack.Value.Count = 95 }},
		{"conntrack-drops", Warning, "drop by 2", func(f *Facts) { f.Conntrack.Value.Later.Drop = 2 }},
		{"conntrack-drops", Note, "early_drop 3", func(f *Facts) {
			f.Conntrack.Value.Stats.EarlyDrop, f.Conntrack.Value.Later.EarlyDrop = 3, 3
		}},
		{"conntrack-buckets", Warning, "echo 25", func(f *Facts) { f.Conntrack.Value.Buckets = 10 }},

		{"service-route", Error, "no route: 10.96.0.10", func(f *Facts) { f.Routes.Value.Services[0].Failed = "no route" }},
		{"service-route-elsewhere", Warning, "10.96.0.10 by tun0", func(f *Facts) {
			f.Routes.Value.Services[0].Device = "tun0"
		}},
		{"service-address-local", Warning, "ip address del 10.96.0.10 dev eth0", links(func(l []Link) []Link {
			l[0].Addresses = append(l[0].Addresses, addr("10.96.0.10"))
			return l
		})},
		{"mtu-tunnel", Warning, "ip link set vxlan0 mtu 1450", links(func(l []Link) []Link { l[2].MTU = 1451; return l })},
		{"mtu-pods", Warning, "veth2 (veth) has MTU 1451, cni0 has 1450", links(func(l []Link) []Link {
			l[4].MTU = 1451
			return l
		})},
		{"mtu-pods", Warning, "lxc1 (veth) has MTU 9000, eth0 has 1500", links(func(l []Link) []Link {
			return append(l, Link{Name: "lxc1", Kind: "veth", MTU: 9000, Up: true})
		})},
		{"mtu-pods", Warning, "veth2 (veth) has MTU 1400, 2 other interfaces of pods have 1450", links(func(l []Link) []Link {
			l[4].MTU = 1400
			return append(l, Link{Name: "veth3", Kind: "veth", MTU: 1450, Up: true})
		})},

		{"port-taken", Warning, "nginx (pid 99) listens at 0.0.0.0:30080/tcp", func(f *Facts) {
			f.Listeners.Value = append(f.Listeners.Value, listens)
		}},
		{"port-taken", Warning, "a proxy port of shop/cart:http", func(f *Facts) {
			f.Listeners.Value[0] = Listener{Protocol: "tcp", Address: addrPort("127.0.0.1:11000")}
		}},
		{"local-ports-nodeports", Warning, "30080", set(localRange, "30000 60999")},
		{"local-ports-proxy", Note, "11000", func(f *Facts) {
			set(localRange, "1024 60999")(f)
			set(reservedPorts, "8080,30000-32767")(f)
		}},
		{"local-ports-room", Error, "27000 UDP", func(f *Facts) { f.Sockets.Value.UDP = 27000 }},
		{"local-ports-room", Warning, "23000 UDP", func(f *Facts) { f.Sockets.Value.UDP = 23000 }},

		{"descriptors", Error, "99 %", func(f *Facts) { f.Process.Value.Descriptors = 1<<20 - 1 }},
		{"descriptors", Warning, "90 %", func(f *Facts) { f.Process.Value.Descriptors = 950_000 }},
		{"descriptor-limit", Warning, "1024", func(f *Facts) { f.Process.Value.Limit = 1024 }},
		{"host-files", Error, "99 %", set(openFiles, "1990000 0 2000000")},
		{"pipes", Warning, "is 1024", set(pipePages, "1024")},
		{"memory", Error, "1014 of 1024 MiB", func(f *Facts) { f.Process.Value.Memory.Used = 1014 << 20 }},
		{"memory", Warning, "OOM killer", func(f *Facts) { f.Process.Value.Memory.Kills = 1 }},

		{"windows-elevated", Note, "not elevated", func(f *Facts) { f.System, f.Elevated.Value = windows, false }},
		{"windows-service", Warning, "not installed", func(f *Facts) {
			f.System, f.Service.Value = windows, "not "+
				"installed"
		}},
		{"windows-excluded-ports", Error, "0.0.0.0:30080/tcp of shop/cart:http", func(f *Facts) {
			f.System, f.Excluded.Value = windows, []ExcludedPorts{{"udp", inet.PortRange{First: 80, Last: 80}},
				{"tcp", inet.PortRange{First: 30080, Last: 30080}}}
		}},
		{"windows-hns-load-balancers", Error, "E1 (tcp 10.96.0.10:80), at shop/cart:http", func(f *Facts) {
			f.System, f.Balancers.Value = windows, []hns.LoadBalancer{{ID: "E1", Frontend: []string{"10.96.0.10"},
				Ports: []hns.PortMapping{{Protocol: 6, Port: 80}}}}
		}},
		{"windows-hns-load-balancers", Error, "E2 (tcp port 30080 of the node), at shop/cart:http", func(f *Facts) {
			f.System, f.Balancers.Value = windows, []hns.LoadBalancer{{ID: "E2", Ports: []hns.PortMapping{{Protocol: 6,
				Port: 30080}}}}
		}},
		{"windows-hns-load-balancers", Note, "1 HNS load balancers at no address of a Service", func(f *Facts) {
			f.System, f.Balancers.Value = windows, []hns.LoadBalancer{{ID: "E3", Frontend: []string{"10.96.7.7"},
				Ports: []hns.PortMapping{{Protocol: 6, Port: 80}}}}
		}},
		{"windows-dynamic-ports", Warning, "tcp ports 1025 to 65535", func(f *Facts) {
			f.System, f.Dynamic.Value = windows, []DynamicPorts{{"tcp", inet.PortRange{First: 1025, Last: 65535}}}
		}},
		{"windows-overlay", Error, `"vxlan0" of type Overlay`, func(f *Facts) {
			f.System, f.Networks.Value = windows, []hns.Network{{Name: "nat", Type: "NAT"}, {Name: "vxlan0", Type: "Overlay"}}
		}},
	}
}
