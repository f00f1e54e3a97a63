package doctor

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/hns"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netfilter"
)

// healthy are the facts of a node on which nothing is wrong, with a Service in userspace mode and one in the kernel's.
func healthy() *Facts {
	sysctl := func(value string) Fact[string] { return Fact[string]{Value: value + "\n"} }
	cart := Service{Name: "shop/cart:http", Protocol: "tcp", Frontends: []Frontend{
		{Address: addrPort("10.96.0.10:80"), Kind: clusterIP, ProxyPort: 11000},
		{Address: addrPort("0.0.0.0:30080"), Kind: nodePort, ProxyPort: 11000},
	}}
	dns := Service{Name: "kube-system/dns:dns", Protocol: "udp", Kernel: true,
		Endpoints: []netip.AddrPort{addrPort("10.244.1.2:53")},
		Frontends: []Frontend{{Address: addrPort("10.96.0.53:53"), Kind: clusterIP},
			{Address: addrPort("[fd00:10:96::53]:53"), Kind: clusterIP}}}
	f := &Facts{
		System: linux,
		Daemon: Fact[Daemon]{Value: Daemon{Version: "v1", Node: "here", PID: 7, Mode: "userspace", Writer: "iptables",
			Ready: true, Started: time.Now().Add(-time.Hour)}},
		Services: Fact[Services]{Value: Services{cart, dns}},
		Process: Fact[Process]{Value: Process{Descriptors: 100, Limit: 1 << 20, Sockets: map[uint64]struct{}{77: {}},
			Memory: Memory{Used: 1 << 20, Limit: 1 << 30}}},
		Kernel: Fact[Kernel]{Value: Kernel{"6.18.1", 6, 18}},
		Sysctls: map[string]Fact[string]{
			ipForward4: sysctl("1"), ipForward6: sysctl("1"), routeLocalnet: sysctl("0"), bridgeNF4: sysctl("1"),
			bridgeNF6: sysctl("1"), earlyDemux: sysctl("1"), localRange: sysctl("32768\t60999"), reservedPorts: sysctl(""),
			pipePages: sysctl("16384"), openFiles: sysctl("2000\t0\t2000000"),
		},
		Conntrack: Fact[Conntrack]{Value: Conntrack{Count: 79, Max: 100, Buckets: 100}},
		Links: Fact[[]Link]{Value: []Link{
			{Name: "eth0", Kind: "device", MTU: 1500, Up: true, Addresses: []netip.Addr{addr("192.168.1.2")}},
			{Name: "cni0", Kind: "bridge", MTU: 1450, Up: true}, {Name: "vxlan0", Kind: "vxlan", MTU: 1450, Up: true},
			{Name: "veth1", Kind: "veth", MTU: 1450, Up: true, Master: "cni0"},
			{Name: "veth2", Kind: "veth", MTU: 1450, Up: true, Master: "cni0"},
		}},
		Routes: Fact[Routes]{Value: Routes{
			Default: map[bool]Route{false: {Device: "eth0", Source: addr("192.168.1.2")}, true: {Failed: "no route"}},
			Services: []Route{{To: addr("10.96.0.10"), Device: "eth0"}, {To: addr("10.96.0.53"), Device: "eth0"},
				{To: addr("fd00:10:96::53"), Device: "eth0"}},
		}},
		Listeners: Fact[[]Listener]{Value: []Listener{{Protocol: "tcp", Address: addrPort("127.0.0.1:30080"), Inode: 77}}},
		Sockets:   Fact[Sockets]{Value: Sockets{TCP: 100, TimeWait: 100, UDP: 100}},
		Clock:     Fact[Clock]{Value: Clock{Synchronized: true}},
		Elevated:  Fact[bool]{Value: true},
		Service:   Fact[string]{Value: "Running"},
		Networks:  Fact[[]hns.Network]{Value: []hns.Network{{Name: "cbr0", Type: "L2Bridge"}}},
		Dynamic:   Fact[[]DynamicPorts]{Value: []DynamicPorts{{"tcp", inet.PortRange{First: 49152, Last: 65535}}}},
		Excluded:  Fact[[]ExcludedPorts]{Value: []ExcludedPorts{{"tcp", inet.PortRange{First: 50000, Last: 50059}}}},
	}
	f.Rules.Value = iptablesOf("iptables")
	return f
}

// iptablesOf are rules with chains of ours in the table nat, and a jump to them, of both families.
func iptablesOf(program netfilter.Program) *netfilter.Ruleset {
	out := &netfilter.Ruleset{}
	for _, family := range []string{"ip", "ip6"} {
		t := &netfilter.Table{Program: program, Family: family, Name: "nat"}
		jump := &netfilter.Rule{Text: "-j PORTALD-SERVICES",
			Actions: []netfilter.Action{{Kind: netfilter.Jump, Chain: "PORTALD-SERVICES"}}}
		for name, hook := range map[string]netfilter.Hook{"PREROUTING": netfilter.Prerouting, "OUTPUT": netfilter.Output} {
			t.Chains = append(t.Chains, &netfilter.Chain{Table: t, Name: name, Hook: hook, Type: "nat",
				Priority: netfilter.PriorityNAT, Policy: netfilter.Accept, Rules: []*netfilter.Rule{jump}})
		}
		t.Chains = append(t.Chains, &netfilter.Chain{Table: t, Name: "PORTALD-SERVICES"})
		out.Tables = append(out.Tables, t)
	}
	return out
}

func addr(a string) netip.Addr         { return netip.MustParseAddr(a) }
func addrPort(a string) netip.AddrPort { return netip.MustParseAddrPort(a) }

// Nothing is found on a healthy node, and everything is looked at; on both systems.
func TestHealthy(t *testing.T) {
	for _, system := range []string{linux, windows} {
		f := healthy()
		f.System = system
		r := Examine(f)
		for _, finding := range r.Findings {
			if finding.Severity != OK || finding.Seen == "" {
				t.Errorf("%s: %+v", system, finding)
			}
		}
		if len(r.NotChecked) > 0 || len(r.Findings) < 5 {
			t.Errorf("%s: %d checks, not checked: %v", system, len(r.Findings), r.NotChecked)
		}
	}
}

// Another portald, with a service proxy name, may write by another writer: nothing of it is a leftover.
func TestTwoPortaldsOnANode(t *testing.T) {
	f := healthy()
	chains(netfilter.NFTables, "ip", "portald-0a1b2c")(f)
	if r := Examine(f); r.Count(OK) != len(r.Findings) {
		t.Errorf("finds %+v", r.Findings)
	}
}

// The cluster's service proxy serves the node too where portald serves only Services with its label.
func TestAlongsideKubeProxy(t *testing.T) {
	f := healthy()
	f.Daemon.Value.Alongside, f.KubeProxies.Value = true, []int{4711}
	chains(netfilter.IPTablesNFT, "ip", "nat", "KUBE-SERVICES")(f)
	if r := Examine(f); r.Count(OK) != len(r.Findings) {
		t.Errorf("finds %+v", r.Findings)
	}
}

// fault spoils a healthy node in one way, and names the check that finds it and the words of its finding.
type fault struct {
	check    string
	severity Severity
	says     string // in what was seen and what to do
	plant    func(*Facts)
}

// Each fault is found by its check, and by no other.
func TestFaults(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range faults() {
		f := healthy()
		c.plant(f)
		r, found := Examine(f), false
		for _, got := range r.Findings {
			switch {
			case got.Severity == OK:
			case got.Check != c.check:
				t.Errorf("%s: also finds %+v", c.check, got)
			default:
				found = got.Severity == c.severity && strings.Contains(got.Seen+" "+got.Do, c.says) && got.Why != ""
				if !found {
					t.Errorf("%s: got %+v, want %q (%s)", c.check, got, c.says, c.severity)
				}
			}
		}
		if !found {
			t.Errorf("%s: %q is not found", c.check, c.says)
		}
		tried[c.check] = true
	}
	for _, c := range Checks() {
		if !tried[c.Name] {
			t.Errorf("no fault tries %s", c.Name)
		}
	}
}

// A fact that could not be read is reported as unknown: neither as healthy nor as a fault.
func TestNothingIsKnown(t *testing.T) {
	no := errors.New("no rights")
	f := &Facts{System: linux, Daemon: Fact[Daemon]{Err: no}, Process: Fact[Process]{Err: no},
		Kernel:    Fact[Kernel]{Err: no},
		Conntrack: Fact[Conntrack]{Err: no}, XtablesLock: Fact[Lock]{Err: no}, IPTables: Fact[IPTables]{Err: no},
		Rules: Fact[*netfilter.Ruleset]{Err: no}, IPVS: Fact[IPVS]{Err: no}, KubeProxies: Fact[[]int]{Err: no},
		Links: Fact[[]Link]{Err: no}, Routes: Fact[Routes]{Err: no}, Listeners: Fact[[]Listener]{Err: no},
		Sockets: Fact[Sockets]{Err: no}, Clock: Fact[Clock]{Err: no}, Connects: Fact[[]ConnectProgram]{Err: no}}
	r := Examine(f)
	if len(r.Findings) != 1 || r.Findings[0].Check != "daemon" || r.Findings[0].Severity != Error {
		t.Errorf("finds %+v", r.Findings)
	}
	all := len(slices.DeleteFunc(Checks(), func(c Check) bool { return c.System == windows }))
	if len(r.NotChecked) != all-1 {
		t.Errorf("%d of %d are said not to be checked", len(r.NotChecked), all-1)
	}
}
