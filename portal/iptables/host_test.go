package iptables

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

type runner func(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error)

// testHost is a portaltest.Host behind any runner of iptables commands.
type testHost struct {
	run     runner
	variant string
}

var volatile = regexp.MustCompile(`(?m)^#.*\n| \[\d+:\d+\]$`)

func (h testHost) Dump(ctx context.Context) (string, error) {
	var b strings.Builder
	for _, f := range []family{ipv4(), ipv6()} {
		for _, table := range []string{natTable, filterTable, mangleTable} {
			text, err := h.run(ctx, f.commandName(h.variant, "save"), []string{"-t", table}, nil)
			if err != nil {
				return "", err
			}
			b.WriteString(f.ip.String() + " " + volatile.ReplaceAllString(string(text), ""))
		}
	}
	return b.String(), nil
}

// Neighbours: names that begin as ours do, rules that speak of our chains, rules before and after ours.
const foreignRules = `*nat
:KUBE-SERVICES - [0:0]
:PORTALD - [0:0]
:PORTALD-SERVICES-2 - [0:0]
:PORTALDX-SERVICES - [0:0]
-A PREROUTING -m comment --comment "goes -j PORTALD-SERVICES next" -j KUBE-SERVICES
-A PREROUTING -j PORTALD-SERVICES-2
-A OUTPUT -j PORTALDX-SERVICES
-A KUBE-SERVICES -p tcp -m tcp --dport 9 -j PORTALD
COMMIT
*filter
:OTHER - [0:0]
-A INPUT -j OTHER
-A FORWARD -j OTHER
-A OUTPUT -p udp -m udp --dport 9 -j OTHER
-A OTHER -p tcp -m tcp --dport 9 -j DROP
COMMIT
*mangle
:DIVERT - [0:0]
-A PREROUTING -p tcp -m socket --transparent -j DIVERT
-A DIVERT -j MARK --set-xmark 0x1/0xffffffff
COMMIT
`

func (h testHost) AddForeign(ctx context.Context) error {
	for _, f := range []family{ipv4(), ipv6()} {
		for _, text := range strings.SplitAfter(foreignRules, "COMMIT\n")[:3] {
			if err := h.restore(ctx, f, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h testHost) restore(ctx context.Context, f family, text string) error {
	_, err := h.run(ctx, f.commandName(h.variant, "restore"), []string{"--noflush"}, []byte(text))
	return err
}

func (h testHost) Damage(ctx context.Context, front service.Frontend) error {
	f := ipv4()
	if front.Addr.Addr().Is6() {
		f = ipv6()
	}
	match := fmt.Sprintf("-m %s --dport %d -j [RDP]", front.Protocol, front.Addr.Port())
	if addr := front.Addr.Addr(); !addr.IsUnspecified() {
		match = "-d " + addr.String() + "/.*" + match
	}
	rule := regexp.MustCompile(`(?m)^-A (PORTALD.*` + match + `.*)$`)
	for _, table := range []string{natTable, filterTable} {
		text, err := h.run(ctx, f.commandName(h.variant, "save"), []string{"-t", table}, nil)
		if err != nil {
			return err
		}
		if groups := rule.FindSubmatch(text); groups != nil {
			return h.restore(ctx, f, fmt.Sprintf("*%s\n-D %s\nCOMMIT\n", table, groups[1]))
		}
	}
	return fmt.Errorf("no rule for %s", front)
}

func (h testHost) Unhook(ctx context.Context) error {
	for _, text := range []string{
		"*nat\n-D OUTPUT -j PORTALD-SERVICES\nCOMMIT\n",
		"*filter\n-D INPUT -p udp -m udp --dport 20000:29999 -m conntrack --ctstate NEW -j PORTALD-GUARD\nCOMMIT\n",
	} {
		if err := h.restore(ctx, ipv6(), text); err != nil {
			return err
		}
	}
	return nil
}

func testOptions(run runner, variant string) Options {
	return Options{
		Options: writer.Options{ProxyPorts: portaltest.ProxyRange()},
		Run:     run, Variant: variant, ExtraNames: "IPVS-[A-Z]+",
	}
}

// richOptions ask for all that testOptions do without.
func richOptions(run runner, variant string) Options {
	o := testOptions(run, variant)
	o.Mark = 0x1000
	o.LocalDetector = portal.LocalDetector{Sources: prefixes("10.244.7.7/16", "10.9.0.1/32", "fd00:10:244::/56"),
		Interface: "cni0", InterfacePrefix: "veth"}
	return o
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func subject(run runner, o Options) portaltest.Subject {
	written := 0
	o.Run = func(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error) {
		if strings.Contains(name, "restore") {
			written++
		}
		return run(ctx, name, args, stdin)
	}
	return portaltest.Subject{
		Host:      testHost{run, o.Variant},
		NewWriter: func() (portal.Writer, error) { return New(context.Background(), o) },
		Written:   func() (int, error) { return written, nil },
	}
}

func TestFakeHost(t *testing.T) {
	for _, options := range []func(runner, string) Options{testOptions, richOptions} {
		portaltest.Run(t, true, func(*testing.T) portaltest.Subject {
			host := newFake()
			return subject(host.run, options(host.run, ""))
		})
	}
}

// A kernel that takes short messages alone is given several, and each of them must be right where it comes.
func TestFakeHostTakesLittle(t *testing.T) {
	portaltest.Run(t, true, func(*testing.T) portaltest.Subject {
		host := newFake()
		host.most = 100
		return subject(host.run, testOptions(host.run, ""))
	})
}

func newWriter(t testing.TB, o Options) *Writer {
	t.Helper()
	w, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func name(svc, port string) service.PortName {
	return service.PortName{Namespace: "shop", Name: svc, Port: port, Protocol: inet.TCP}
}

func front(addr string, proto inet.Protocol) service.Frontend {
	return service.Frontend{Addr: netip.MustParseAddrPort(addr), Protocol: proto}
}

// goldenPorts are open proxy ports: neighbours over two leaves, and some with gaps.
func goldenPorts() map[portal.ProxyPort]bool {
	open := map[portal.ProxyPort]bool{}
	for _, port := range []uint16{20222, 20223, 20224, 20225, 20480, 20490, 20491} {
		open[portal.ProxyPort{Protocol: inet.TCP, Port: port}] = true
		open[portal.ProxyPort{Family: inet.IPv6, Protocol: inet.TCP, Port: port}] = true
	}
	open[portal.ProxyPort{Protocol: inet.UDP, Port: 20000}] = true
	return open
}

// goldenPortals has every kind, target, family and protocol, two portals a leaf, and two leaves a group.
func goldenPortals() []portal.Portal {
	redirect, inside := portal.Redirect{Port: 20001}, portal.Redirect{Port: 20002, Inside: true}
	to := func(addr string, proto inet.Protocol, kind service.Kind, target portal.Target) portal.Portal {
		return portal.Portal{Frontend: front(addr, proto), Kind: kind, Owner: name("cart", "http"), Target: target}
	}
	odd := to("10.96.0.7:1", inet.TCP, service.ClusterIP, redirect)
	odd.Owner = name(`a"b\c -j DROP`+"\n", "")
	return []portal.Portal{
		odd,
		to("10.96.0.5:80", inet.TCP, service.ClusterIP, redirect),
		to("10.96.0.5:80", inet.UDP, service.ClusterIP, redirect),
		to("10.96.4.5:80", inet.TCP, service.ClusterIP, redirect),
		to("10.96.1.37:80", inet.TCP, service.ClusterIP, redirect),
		to("192.0.2.255:443", inet.TCP, service.ExternalIP, portal.Reject{}),
		to("192.0.2.1:443", inet.UDP, service.LoadBalancerIP, portal.Reject{}),
		to("0.0.0.0:30080", inet.TCP, service.NodePort, redirect),
		to("0.0.0.0:30081", inet.TCP, service.NodePort, portal.Reject{}),
		to("0.0.0.0:65535", inet.UDP, service.NodePort, redirect),
		to("0.0.0.0:1", inet.UDP, service.NodePort, redirect),
		to("[fd00:1::3e5]:80", inet.TCP, service.ClusterIP, redirect),
		to("[fd00:1::1:1]:80", inet.UDP, service.ClusterIP, portal.Reject{}),
		to("[::]:30080", inet.TCP, service.NodePort, redirect),
		to("192.0.2.3:443", inet.TCP, service.LoadBalancerIP, inside),
		to("192.0.2.4:443", inet.UDP, service.ExternalIP, portal.Drop{}),
		to("0.0.0.0:30082", inet.UDP, service.NodePort, inside),
		to("[fd00:9::3]:443", inet.UDP, service.LoadBalancerIP, inside),
		to("[fd00:9::4]:443", inet.TCP, service.ClusterIP, portal.Drop{}),
		to("[::]:30082", inet.TCP, service.NodePort, inside),
	}
}

const nodeAddress = "192.0.2.1"

func addresses(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}
