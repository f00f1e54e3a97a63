package rules

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// foreign adds rules of another program, to the built-in chains that portald hooks into and to chains of its own.
func foreign(b *bed.Bed, command string) {
	b.Helper()
	for _, rule := range []string{
		"-t nat -N OTHER", "-t nat -A PREROUTING -j OTHER", "-t nat -A OTHER -p tcp --dport 5555 -j REDIRECT --to-ports 5556",
		"-t nat -A POSTROUTING -p tcp --dport 5555 -j MASQUERADE", "-N OTHER", "-A INPUT -j OTHER",
		"-A FORWARD -p udp --dport 5555 -j DROP",
		"-A OTHER -p tcp --dport 5557 -j REJECT", "-N PORTALD-SERVICES-OF-OTHERS", "-A OUTPUT -j PORTALD-SERVICES-OF-OTHERS",
	} {
		b.On(b.Node, command, append([]string{"-w"}, strings.Fields(rule)...)...)
	}
}

// Rules of portald that another program deletes come back; foreign rules stay, and after portald's end only they are
// left. This holds for both variants of iptables.
func TestPortalsComeBackAndLeaveNoTrace(t *testing.T) {
	for _, variant := range []string{"nft", "legacy"} {
		t.Run(variant, func(t *testing.T) {
			b := bed.New(t, "iptables-"+variant, "ip6tables-"+variant)
			v4, v6 := "iptables-"+variant, "ip6tables-"+variant
			b.ServePods(0)
			foreign(b, v4)
			foreign(b, v6)
			before := b.Rules(variant)
			d := b.Start(b.Cart(0).String()+b.Simple("empty", "10.96.7.7", 0).Service(), "--iptables-variant", variant,
				"--iptables-sync-period=1s", "--on-exit=remove")
			complete := b.Rules(variant)
			if !b.Served() {
				t.Error("not served at first")
			}
			for what, take := range map[string]func(){
				"a rule": func() {
					for _, command := range []string{v4, v6} {
						b.On(b.Node, command, "-w", "-t", "nat", "-D", "PREROUTING", "-j", "PORTALD-SERVICES")
					}
				},
				"a chain's rules": func() { b.On(b.Node, v4, "-w", "-t", "nat", "-F", "PORTALD-NODEPORTS") },
				"a reject rule": func() {
					b.On(b.Node, v4, "-w", "-D", "FORWARD", "-m", "conntrack", "--ctstate", "NEW", "-j", "PORTALD-SERVICES")
				},
			} {
				take()
				if b.Rules(variant) == complete {
					t.Errorf("%s was not deleted", what)
				}
				b.Eventually(what+" to come back", func() bool { return b.Rules(variant) == complete })
			}
			if !b.Served() {
				t.Error("not served after rules came back")
			}
			d.Stop()
			if after := b.Rules(variant); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

func TestPortalsComeBackAfterAFlush(t *testing.T) {
	b := bed.New(t, "iptables-restore", "ip6tables-restore")
	b.ServePods(0)
	d := b.Start(b.Cart(0), "--iptables-sync-period=1s")
	for _, command := range []string{"iptables", "ip6tables"} {
		for _, table := range []string{"nat", "filter"} {
			b.On(b.Node, command, "-t", table, "-F")
			b.On(b.Node, command, "-t", table, "-X")
		}
	}
	b.Eventually("the flush to be noticed", func() bool {
		return strings.Contains(d.Log.String(), "The host's rules were changed by others")
	})
	b.Eventually("portals to come back", b.Served)
}

// A killed daemon leaves rules behind. The next daemon replaces them, the cleanup command removes them; neither
// touches other rules.
func TestLeftoversOfACrash(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	foreign(b, "iptables")
	before := b.Rules()
	first := b.Start(b.Cart(0).String() + b.Simple("gone", "10.96.7.7", 0).String())
	first.Signal(syscall.SIGKILL)
	first.Exit()
	if !strings.Contains(b.Rules(), "shop/gone:http") {
		t.Fatal("the killed daemon left no rules behind")
	}
	second := b.Start(b.Cart(0))
	if !b.Served() {
		t.Error("not served after a crash")
	}
	if strings.Contains(b.Rules(), "shop/gone:http") {
		t.Error("a portal of the killed daemon still exists")
	}
	second.Signal(syscall.SIGKILL)
	second.Exit()
	for range 2 { // the second time there is nothing to remove
		b.On(b.Node, bed.Portald, "cleanup")
		if after := b.Rules(); after != before {
			t.Errorf("cleanup: before:\n%s\nafter:\n%s", before, after)
		}
	}
}

// On a host whose INPUT policy is DROP, all frontends are served.
func TestHostThatDropsByDefault(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	for _, command := range []string{"iptables", "ip6tables"} {
		b.On(b.Node, command, "-A", "INPUT", "-i", "lo", "-j", "ACCEPT")
		b.On(b.Node, command, "-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "ACCEPT")
		b.On(b.Node, command, "-P", "INPUT", "DROP")
	}
	b.On(b.Node, "ip6tables", "-A", "INPUT", "-p", "ipv6-icmp", "-j", "ACCEPT") // neighbour discovery
	b.Start(b.Cart(0))
	for from, addresses := range b.Frontends() {
		for _, to := range addresses {
			for _, network := range []string{"tcp", "udp"} {
				if a, err := bed.Ask(from, network, to); err != nil || a.Pod != "pod0" {
					t.Errorf("%s %s from %s: %q, %v, want pod0", network, to, from.Name, a.Pod, err)
				}
			}
		}
	}
}

// Other programs that write rules concurrently do not block portald, and no rule gets lost.
func TestManyWritersOfRules(t *testing.T) {
	for _, variant := range []string{"nft", "legacy"} {
		t.Run(variant, func(t *testing.T) {
			b := bed.New(t, "iptables-"+variant)
			b.ServePods(0, 1)
			before := b.Rules(variant)
			d := b.Start(b.Cart(0), "--iptables-variant", variant, "--iptables-min-sync-period=0s",
				"--on-exit=remove")
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					for range 15 {
						chain := fmt.Sprint("WRITER-", i)
						for _, args := range [][]string{{"-N", chain}, {"-A", chain, "-j", "RETURN"}, {"-F", chain}, {"-X", chain}} {
							if _, err := b.Try(b.Node, "iptables-"+variant, append([]string{"-w", "20", "-t", "nat"},
								args...)...); err != nil {
								b.Error(err)
							}
						}
					}
				})
			}
			for i := range 8 { // each changes rules
				d.Apply(b.Cart(0).String() + b.Simple("more", fmt.Sprint("10.96.7.", i+1), 1).String())
				b.ServedBy(fmt.Sprint("10.96.7.", i+1), "pod1")
			}
			wg.Wait()
			if !b.Served() {
				t.Error("not served after all that")
			}
			d.Stop()
			if after := b.Rules(variant); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// Node ports are served at the addresses of --nodeport-addresses and at no other.
func TestNodePortAddresses(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	b.Start(b.Cart(0), "--nodeport-addresses", b.Node.IPv4.String()+"/32", "--iptables-localhost-nodeports=false")
	if a, err := bed.Ask(b.Client, "tcp", bed.HostPort(b.Node.IPv4.String(), bed.NodePort)); err != nil ||
		a.Pod != "pod0" {
		t.Errorf("at an address of --nodeport-addresses: %q, %v", a.Pod, err)
	}
	for _, to := range []string{bed.HostPort("10.244.0.1", bed.NodePort), bed.HostPort(b.Node.IPv6.String(),
		bed.NodePort)} {
		if a, err := bed.AskWithin(bed.SilenceTimeout, b.Client, "tcp", to); err == nil {
			t.Errorf("at %s: answered by %q, want no answer", to, a.Pod)
		}
	}
	if a, err := bed.Ask(b.Node, "tcp", bed.HostPort("127.0.0.1", bed.NodePort)); err == nil {
		t.Errorf("at the loopback address: answered by %q, want no answer", a.Pod)
	}
}

// portald does not change the sysctl route_localnet.
func TestLoopbackStaysClosed(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	b.Start(b.Cart(0))
	var set string
	err := b.Node.Do(func() error {
		data, err := os.ReadFile("/proc/sys/net/ipv4/conf/all/route_localnet")
		set = strings.TrimSpace(string(data))
		return err
	})
	if err != nil || set != "0" {
		t.Errorf("route_localnet is %q, %v, want 0", set, err)
	}
}
