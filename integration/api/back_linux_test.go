package api

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// goingBack returns a node from each mode to kube-proxy, by the steps in the documentation. Afterwards the node is as
// if portald had never run on it.
func goingBack(b *apibed.Bed, n *cluster.Namespace) {
	s := b.Sites[9]
	cart := n.Service("cart", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: apibed.Web()})
	n.Service("nobody", corev1.ServiceSpec{Ports: apibed.Web()})
	b.AddPods(n, "cart", "j0")
	restore(s.Bed, kubelet, "iptables-nft", "ip6tables-nft")
	restore(s.Bed, kubeProxy, "iptables-nft", "ip6tables-nft")
	want := everything(s.Bed)
	restore(s.Bed, undone(kubeProxy), "iptables-nft", "ip6tables-nft")
	never := everything(s.Bed)
	if want == never || !strings.Contains(want, "KUBE-SVC-") {
		b.Fatalf("no rules of kube-proxy in\n%s", want)
	}
	answers := func(step string) {
		b.Helper()
		b.Answers(s.Client, "tcp", apibed.On80(cart.Spec.ClusterIP), "j0")
		b.Answers(s.Client, "tcp", joinPort(s.Node, nodePortOf(cart, "tcp")), "j0")
		if b.Failed() {
			b.Fatalf("in step %s", step)
		}
	}
	run := func(step string, args ...string) *bed.Daemon {
		b.Helper()
		s.D = nil
		d := b.ServeOn(s, args...)
		answers(step)
		return d
	}
	end := func(d *bed.Daemon) {
		b.Helper()
		if code := d.Stop(); code != 0 {
			b.Fatalf("portald ended with code %d\n%s", code, d.Log)
		}
	}
	for _, m := range [][]string{
		{"--proxy-mode=nftables", "--nodeport-addresses=0.0.0.0/0,::/0"}, {"--writer=nftables"}, {"--proxy-mode=iptables"},
		nil, {"--proxy-mode=iptables", "--iptables-variant=legacy"}, {"--iptables-variant=legacy"},
	} {
		name := "from " + strings.Join(m, " ")
		end(run(name, m...))
		answers(name + ", ended")
		d := run(name + " to userspace")
		b.Eventually(name+" the rules of the previous mode to be removed", func() bool {
			return !strings.Contains(strings.ReplaceAll(everything(s.Bed), "KUBE-KUBELET", ""), "KUBE-SVC-") &&
				!strings.Contains(everything(s.Bed), "KUBE-GUARD") &&
				!strings.Contains(s.Ruleset(), "kube-proxy") && !strings.Contains(s.Ruleset(), "table ip portald") &&
				!strings.Contains(s.Rules("legacy"), "PORTALD")
		})
		restore(s.Bed, kubeProxy, "iptables-nft", "ip6tables-nft")
		end(d)
		end(run(name+", ready to leave", "--on-exit=remove"))
		if got := everything(s.Bed); got != want {
			b.Errorf("%s: (-a node without portald +this node)\n%s", name, cmp.Diff(strings.Split(want, "\n"),
				strings.Split(got, "\n")))
		}
		restore(s.Bed, undone(kubeProxy), "iptables-nft", "ip6tables-nft")
		if legacy := legacyTables(s.Bed); !strings.Contains(name, "legacy") && legacy != "" {
			b.Errorf("%s: tables of iptables-legacy were created: %q", name, legacy)
		} else if strings.Contains(name, "legacy") {
			break // they stay once created
		}
	}
}

// restore passes rules to iptables-restore commands.
func restore(b *bed.Bed, rules string, commands ...string) {
	b.Helper()
	for _, c := range commands {
		text := rules
		if strings.HasPrefix(c, "ip6") {
			text = strings.NewReplacer("127.0.0.0/8", "::1/128", "10.96.99.1/32", "fd00:10:96::99/128", "10.244.9.9:80",
				"[fd00:10:244:9::9]:80").Replace(rules)
		}
		b.On(b.Node, c+"-restore", "--noflush", b.WriteManifest("rules", text))
	}
}

// undone returns the commands that remove rules; rules in chains of their own are removed with the chains.
func undone(rules string) string {
	var out, gone []string
	for line := range strings.Lines(rules) {
		name, isChain := strings.CutPrefix(line, ":")
		switch name, _, _ = strings.Cut(name, " "); {
		case isChain:
			out, gone = append(out, line), append(gone, "-X "+name+"\n") // which empties it
		case strings.HasPrefix(line, "-A KUBE-"):
		case line == "COMMIT\n":
			out, gone = append(append(out, gone...), line), nil
		default:
			out = append(out, strings.Replace(line, "-A ", "-D ", 1))
		}
	}
	return strings.Join(out, "")
}

// emptyChain is a base chain of nftables without rules, which iptables makes of a table that it looks at; emptyTable
// one with nothing else.
var (
	emptyChain = regexp.MustCompile(`(?m)^\tchain [A-Z]+ \{\n\t\ttype .* policy accept;\n\t\}\n\n?`)
	emptyTable = regexp.MustCompile(`(?m)^(# Warning: .*\n)?table \w+ \w+ \{\n\n?\}\n`)
	hostsOwn   = regexp.MustCompile(`(?m)^.* table local .*\n|<.*`) // routes of local addresses, link states
	counts     = regexp.MustCompile(`counter packets \d+ bytes \d+`)
)

// everything returns all state of the node that portald can change in any mode.
func everything(b *bed.Bed) string {
	b.Helper()
	ruleset := counts.ReplaceAllString(b.Ruleset(), "counter")
	ruleset = emptyTable.ReplaceAllString(emptyChain.ReplaceAllString(ruleset, ""), "")
	all := []string{b.Rules("nft"), b.Rules("legacy"), inOrder(ruleset)}
	for _, command := range []string{"ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all",
		"ip -o link"} {
		words := strings.Fields(command)
		all = append(all, "# "+command, hostsOwn.ReplaceAllString(b.On(b.Node, words[0], words[1:]...), ""))
	}
	if sets, err := b.Try(b.Node, "ipset", "list", "-name"); err == nil {
		all = append(all, "# ipset", sets)
	}
	return strings.Join(all, "\n")
}

// inOrder sorts the blocks of each table, which nft lists in the order of their creation.
func inOrder(ruleset string) string {
	var blocks []string
	table, block := "", ""
	for line := range strings.Lines(ruleset) {
		switch {
		case strings.HasPrefix(line, "table "):
			table = line
		case strings.TrimSpace(line) == "":
		default:
			block += line
			if strings.HasPrefix(line, "\t}") {
				blocks, block = append(blocks, table+block), ""
			}
		}
	}
	slices.Sort(blocks)
	return strings.Join(blocks, "")
}

// legacyTables lists the tables of iptables-legacy in the kernel.
func legacyTables(b *bed.Bed) (names string) {
	b.Helper()
	_ = b.Node.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/ip_tables_names")
		names = string(text)
		return err
	})
	return names
}

// Rules of the kubelet.
const kubelet = `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*nat
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
COMMIT
`

// Rules of kube-proxy in iptables mode, for one Service.
const kubeProxy = `*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SVC-ZZMLZTZFFDFTQZAA - [0:0]
:KUBE-SEP-ZZMLZTZFFDFTQZAB - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-SERVICES -d 10.96.99.1/32 -p tcp -m comment --comment "x/y:z cluster IP" -m tcp --dport 80 -j KUBE-SVC-ZZMLZTZFFDFTQZAA
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-SVC-ZZMLZTZFFDFTQZAA -m comment --comment "x/y:z" -j KUBE-SEP-ZZMLZTZFFDFTQZAB
-A KUBE-SEP-ZZMLZTZFFDFTQZAB -p tcp -m comment --comment "x/y:z" -m tcp -j DNAT --to-destination 10.244.9.9:80
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
COMMIT
*filter
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
COMMIT
*mangle
:KUBE-PROXY-CANARY - [0:0]
COMMIT
`
