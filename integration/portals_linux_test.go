package integration

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// foreign are rules of somebody else, in the chains that portald's portals start from and in chains of its own.
func (b *bed) foreign(command string) {
	b.Helper()
	for _, rule := range []string{
		"-t nat -N OTHER", "-t nat -A PREROUTING -j OTHER", "-t nat -A OTHER -p tcp --dport 5555 -j REDIRECT --to-ports 5556",
		"-t nat -A POSTROUTING -p tcp --dport 5555 -j MASQUERADE", "-N OTHER", "-A INPUT -j OTHER", "-A FORWARD -p udp --dport 5555 -j DROP",
		"-A OTHER -p tcp --dport 5557 -j REJECT", "-N PORTALD-SERVICES-OF-OTHERS", "-A OUTPUT -j PORTALD-SERVICES-OF-OTHERS",
	} {
		b.on(b.node, command, append([]string{"-w"}, strings.Fields(rule)...)...)
	}
}

func (b *bed) served() bool {
	for _, addr := range []string{ip4, ip6} {
		for _, network := range []string{"tcp", "udp"} {
			if a, err := whoWithin(patience/10, b.client, network, at(addr, 80)); err != nil || a.pod == "" {
				return false
			}
		}
	}
	return true
}

// Rules that others take away come back, theirs stay, and at the end there is nothing but theirs. In both variants.
func TestPortalsComeBackAndLeaveNoTrace(t *testing.T) {
	for _, variant := range []string{"nft", "legacy"} {
		t.Run(variant, func(t *testing.T) {
			b := newBed(t, "iptables-"+variant, "ip6tables-"+variant)
			v4, v6 := "iptables-"+variant, "ip6tables-"+variant
			b.servePods(0)
			b.foreign(v4)
			b.foreign(v6)
			before := b.rules(variant)
			d := b.start(b.cart(0).String()+b.simple("empty", "10.96.7.7", 0).service(), "--iptables-variant", variant, "--iptables-sync-period=1s")
			standing := b.rules(variant)
			if !b.served() {
				t.Error("not served at first")
			}
			for what, take := range map[string]func(){
				"a rule": func() {
					for _, command := range []string{v4, v6} {
						b.on(b.node, command, "-w", "-t", "nat", "-D", "PREROUTING", "-j", "PORTALD-SERVICES")
					}
				},
				"a chain's rules": func() { b.on(b.node, v4, "-w", "-t", "nat", "-F", "PORTALD-NODEPORTS") },
				"a refusal": func() {
					b.on(b.node, v4, "-w", "-D", "FORWARD", "-m", "conntrack", "--ctstate", "NEW", "-j", "PORTALD-SERVICES")
				},
			} {
				take()
				if b.rules(variant) == standing {
					t.Errorf("%s was not taken away", what)
				}
				b.eventually(what+" to come back", func() bool { return b.rules(variant) == standing })
			}
			if !b.served() {
				t.Error("not served after rules came back")
			}
			d.stop()
			if after := b.rules(variant); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

func TestPortalsComeBackAfterAFlush(t *testing.T) {
	b := newBed(t, "iptables-restore", "ip6tables-restore")
	b.servePods(0)
	d := b.start(b.cart(0), "--iptables-sync-period=1s")
	for _, command := range []string{"iptables", "ip6tables"} {
		for _, table := range []string{"nat", "filter"} {
			b.on(b.node, command, "-t", table, "-F")
			b.on(b.node, command, "-t", table, "-X")
		}
	}
	b.eventually("the flush to be noticed", func() bool { return strings.Contains(d.log.String(), "Somebody changed the host's rules") })
	b.eventually("portals to come back", b.served)
}

// A killed run leaves rules behind. The next one replaces them, and cleanup removes them, and neither anything else.
func TestLeftoversOfACrash(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	b.foreign("iptables")
	before := b.rules()
	first := b.start(b.cart(0).String() + b.simple("gone", "10.96.7.7", 0).String())
	first.signal(syscall.SIGKILL)
	first.exit()
	if !strings.Contains(b.rules(), "shop/gone:http") {
		t.Fatal("the killed run left nothing behind")
	}
	second := b.start(b.cart(0))
	if !b.served() {
		t.Error("not served after a crash")
	}
	if strings.Contains(b.rules(), "shop/gone:http") {
		t.Error("a portal of the killed run still stands")
	}
	second.signal(syscall.SIGKILL)
	second.exit()
	for range 2 { // the second time there is nothing to remove
		b.on(b.node, portald, "cleanup")
		if after := b.rules(); after != before {
			t.Errorf("cleanup: before:\n%s\nafter:\n%s", before, after)
		}
	}
}

// On a host that lets nothing in by default, portals lead in, and only they.
func TestHostThatDropsByDefault(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	for _, command := range []string{"iptables", "ip6tables"} {
		b.on(b.node, command, "-A", "INPUT", "-i", "lo", "-j", "ACCEPT")
		b.on(b.node, command, "-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "ACCEPT")
		b.on(b.node, command, "-P", "INPUT", "DROP")
	}
	b.on(b.node, "ip6tables", "-A", "INPUT", "-p", "ipv6-icmp", "-j", "ACCEPT") // neighbours find each other by it
	b.start(b.cart(0))
	for from, addresses := range b.places() {
		for _, to := range addresses {
			for _, network := range []string{"tcp", "udp"} {
				if a, err := who(from, network, to); err != nil || a.pod != "pod0" {
					t.Errorf("%s %s from %s: %q, %v, want pod0", network, to, from.Name, a.pod, err)
				}
			}
		}
	}
}

// Others that write rules all the time hold up and break nothing.
func TestManyWritersOfRules(t *testing.T) {
	for _, variant := range []string{"nft", "legacy"} {
		t.Run(variant, func(t *testing.T) {
			b := newBed(t, "iptables-"+variant)
			b.servePods(0, 1)
			before := b.rules(variant)
			d := b.start(b.cart(0), "--iptables-variant", variant, "--iptables-min-sync-period=0s")
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					for range 15 {
						chain := fmt.Sprint("WRITER-", i)
						for _, args := range [][]string{{"-N", chain}, {"-A", chain, "-j", "RETURN"}, {"-F", chain}, {"-X", chain}} {
							if _, err := b.try(b.node, "iptables-"+variant, append([]string{"-w", "20", "-t", "nat"}, args...)...); err != nil {
								b.Error(err)
							}
						}
					}
				})
			}
			for i := range 8 { // each changes rules
				d.apply(b.cart(0).String() + b.simple("more", fmt.Sprint("10.96.7.", i+1), 1).String())
				b.becomes(fmt.Sprint("10.96.7.", i+1), "pod1")
			}
			wg.Wait()
			if !b.served() {
				t.Error("not served after all that")
			}
			d.stop()
			if after := b.rules(variant); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// Node ports are served where they are asked for, and nowhere else.
func TestNodePortAddresses(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	b.start(b.cart(0), "--nodeport-addresses", b.node.IPv4.String()+"/32", "--iptables-localhost-nodeports=false")
	if a, err := who(b.client, "tcp", at(b.node.IPv4.String(), nodePort)); err != nil || a.pod != "pod0" {
		t.Errorf("at the address asked for: %q, %v", a.pod, err)
	}
	for _, to := range []string{at("10.244.0.1", nodePort), at(b.node.IPv6.String(), nodePort)} {
		if a, err := whoWithin(patience/10, b.client, "tcp", to); err == nil {
			t.Errorf("at %s: answered by %q, want nobody", to, a.pod)
		}
	}
	if a, err := who(b.node, "tcp", at("127.0.0.1", nodePort)); err == nil {
		t.Errorf("at the loopback address: answered by %q, want nobody", a.pod)
	}
}

// The host is as before in more than rules: route_localnet stays as it was.
func TestLoopbackStaysClosed(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	b.start(b.cart(0))
	var set string
	err := b.node.Do(func() error {
		data, err := os.ReadFile("/proc/sys/net/ipv4/conf/all/route_localnet")
		set = strings.TrimSpace(string(data))
		return err
	})
	if err != nil || set != "0" {
		t.Errorf("route_localnet is %q, %v", set, err)
	}
}
