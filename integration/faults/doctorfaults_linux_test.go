package faults

import (
	"strings"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/platform/doctor"
)

// command plants a fault by a command on the node.
func command(line string) func(*node) {
	return func(n *node) {
		n.Helper()
		words := strings.Fields(line)
		n.On(n.Node, words[0], words[1:]...)
	}
}

// often plants the command again and again: portald makes good what it does.
func often(line string) func(*node) {
	return func(n *node) {
		n.Helper()
		cmd := n.Node.Command(n.Context(), "sh", "-c", "while sleep 0.05; do "+line+"; done")
		n.Must(cmd.Start())
		n.Cleanup(func() { _ = cmd.Wait() }) // it is killed
	}
}

// sysctl plants a value of the node.
func sysctl(name, value string) func(*node) {
	return func(n *node) { n.Must(n.Node.Sysctl(name, value)) }
}

func kernelMode() []string { return []string{"--proxy-mode", "iptables"} }
func byNFTables() []string { return []string{"--writer", "nftables"} }

func doctorFaults() map[string]doctorFault {
	return map[string]doctorFault{
		"foreign DNAT ahead": {
			check: "foreign-rules", says: "DNAT", severity: doctor.Error,
			plant: command("iptables -t nat -I PREROUTING -d " + bed.IP4 + " -p tcp --dport 80 -j DNAT --to 192.168.50.3:80"),
		},
		"foreign DROP in raw": {
			check: "foreign-rules", says: "-j DROP", severity: doctor.Error,
			plant: command("iptables -t raw -A PREROUTING -d " + bed.IP4 + " -j DROP"),
		},
		"foreign DROP in INPUT": {
			check: "foreign-rules", says: "-j DROP", severity: doctor.Error,
			plant: command("iptables -I INPUT -p tcp --dport 11000:11100 -j DROP"),
		},
		"foreign DROP in FORWARD": {
			check: "foreign-rules", says: "-j DROP", severity: doctor.Error, args: kernelMode(),
			plant: command("iptables -I FORWARD -d 10.244.0.0/16 -j DROP"),
		},
		"foreign table of nftables": {
			check: "foreign-rules", says: "table inet fw", severity: doctor.Error,
			plant: command("nft add table inet fw; add chain inet fw pre { type filter hook prerouting priority raw; }; " +
				"add rule inet fw pre ip daddr " + bed.IP4 + " drop"),
		},
		"foreign rule of one interface": {
			check: "foreign-rules", says: "-i client0", severity: doctor.Note,
			plant: command("iptables -t raw -A PREROUTING -i client0 -d " + bed.IP4 + " -j DROP"),
		},

		"forwarding is off": {
			check: "ip-forward", says: "net.ipv4.ip_forward is 0", severity: doctor.Error, args: kernelMode(),
			plant: sysctl("ipv4/ip_forward", "0"),
		},
		"loopback is open": {
			check: "route-localnet", says: "is 1", plant: sysctl("ipv4/conf/all/route_localnet", "1"),
		},
		"conntrack is full": {
			check: "conntrack-room", says: "entries", severity: doctor.Error, plant: fillConntrack(100),
		},
		"conntrack is nearly full": {
			check: "conntrack-room", says: "entries", severity: doctor.Warning, plant: fillConntrack(87),
		},

		"the lock of iptables is held": {check: "xtables-lock", says: "for at least 1s", plant: (*node).holdLock},
		"iptables hangs":               {check: "iptables", says: "no answer within", plant: (*node).hangIPTables},
		"kube-proxy runs":              {check: "kube-proxy-process", says: "kube-proxy runs", plant: (*node).runKubeProxy},
		"kube-proxy left rules": {
			check: "kube-proxy-rules", says: "KUBE-SERVICES", plant: command("iptables -t nat -N KUBE-SERVICES"),
		},
		"kube-proxy left a table": {
			check: "kube-proxy-rules", says: "table ip kube-proxy", plant: command("nft add table ip kube-proxy"),
		},
		"another mode left a table": {
			check: "leftovers", says: "table ip portald", plant: command("nft add table ip portald"), cleaned: true,
		},
		"another mode left chains": {
			check: "leftovers", says: "PORTALD-SERVICES", args: byNFTables(), cleaned: true,
			plant: func(n *node) { // it may be there yet
				_, _ = n.Try(n.Node, "iptables", "-t", "nat", "-N", "PORTALD-SERVICES")
			},
		},
		"somebody flushed a chain": {
			check: "rules", says: "no rule of PREROUTING", plant: often("iptables -t nat -F PREROUTING"), mended: true,
		},
		"somebody deleted the tables": {
			check: "rules", says: "no chain or table", args: byNFTables(), mended: true,
			plant: often("nft 'delete table ip portald; delete table ip6 portald'"),
		},

		"a server has the NodePort": {
			check: "port-taken", says: "the NodePort of shop/cart",
			plant: func(n *node) {
				n.ServeAt(n.Node, bed.HostPort(n.Node.IPv4.String(), bed.NodePort), bed.NamesItself("other"))
			},
		},
		"local ports overlap NodePorts": {
			check: "local-ports-nodeports", says: "30080", plant: sysctl("ipv4/ip_local_port_range", "30000 60999"),
		},
		"descriptors are used up": {check: "descriptors", says: "descriptors open", plant: (*node).useDescriptors},

		"a route steals the Service CIDR": {
			check: "service-route-elsewhere", says: "by client0", plant: command("ip route add 10.96.0.0/12 dev client0"),
		},
		"a blackhole has the Service CIDR": {
			check: "service-route", says: "blackhole: " + bed.IP4, plant: command("ip route add blackhole 10.96.0.0/12"),
		},
		"no route": {check: "service-route", says: "no route: " + bed.IP4, plant: command("ip route del default")},
		"a Service's address is local": {
			check: "service-address-local", says: bed.IP4 + " is an address of lo",
			plant: command("ip address add " + bed.IP4 + "/32 dev lo"),
		},
		"pods have a large MTU": {
			check: "mtu-pods", says: "pod0 (veth) has MTU 9000", plant: command("ip link set pod0 mtu 9000"),
		},
		"the MTU of one pod is smaller": {
			check: "mtu-pods", says: "pod0 (veth) has MTU 1400", plant: command("ip link set pod0 mtu 1400"),
		},
		"a contested frontend": {
			check: "services", says: "held by shop/cart:http",
			plant: func(n *node) { n.daemon.Apply(n.Cart(0).String() + n.Simple("zebra", bed.IP4, 0).String()) },
		},
		"a service port is set aside": {
			check: "services", says: "shop/zebra:http", args: []string{"--proxy-port-range", "11000-11000"},
			plant: func(n *node) { n.daemon.Apply(n.Cart(0).String() + n.Simple("zebra", "10.96.0.20", 0).String()) },
		},
		"the daemon has ended": {
			check: "daemon", says: "not reachable",
			plant: func(n *node) { n.daemon.Stop() },
		},
	}
}
