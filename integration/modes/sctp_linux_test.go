package modes

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

const (
	signal     = 5060 // the port of SCTP, of Services and in pods
	signalNode = 30060
)

// kernelModes are all, where the kernel has IPVS too.
func kernelModes() (out []bed.Mode) {
	out = []bed.Mode{
		{Name: "iptables", Kernel: true, Args: []string{"--proxy-mode=iptables", bed.PodRanges}},
		{Name: "nftables", Kernel: true, Args: []string{"--proxy-mode=nftables", "--nodeport-addresses=0.0.0.0/0,::/0",
			bed.PodRanges}},
	}
	if bed.InVM {
		out = append(out, bed.Mode{Name: "IPVS", Kernel: true, Args: []string{"--proxy-mode=ipvs", bed.PodRanges}})
	}
	return out
}

// The kernel carries SCTP to every kind of frontend; listeners do not, and say so of that port alone.
func TestSCTP(t *testing.T) {
	for _, m := range kernelModes() {
		t.Run(m.Name, func(t *testing.T) {
			b := bed.New(t)
			b.NeedsSCTP()
			sctp(b, m)
		})
	}
}

// On a node whose kernel may have no SCTP, a port of it does no harm to others: they are served in every mode.
func TestSCTPBesideOthers(t *testing.T) {
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		b.Serve(b.Net.Pod(0), bed.PodPort, bed.NamesItself("tcp0"))
		call := calls(b, 0)
		d := b.Start(call.String()+callsBound(b).String()+callsFenced(b), m.Args...)
		for _, to := range []string{bed.HostPort(bed.IP4, signal), bed.HostPort(b.Node.IPv4.String(), signalNode)} {
			if a, err := bed.Ask(b.Client, "tcp", to); err != nil || a.Pod != "tcp0" {
				b.Errorf("TCP to %s: %v, %v", to, a, err)
			}
		}
		list := b.On(b.Node, bed.Portald, "services", "--socket", d.Socket)
		if refused := strings.Contains(list, "userspace does not carry sctp"); refused == m.Kernel {
			b.Errorf("portald services says\n%s", list)
		}
		said := b.On(b.Node, bed.Portald, "explain", "shop/call:sig", "--socket", d.Socket)
		if refused := strings.Contains(said, "portald does not carry sctp, and refuses"); refused == m.Kernel {
			b.Errorf("portald explain says\n%s", said)
		}
	})
}

func sctp(b *bed.Bed, m bed.Mode) {
	for i := range 2 {
		b.ServeSCTP(b.Net.Pod(i), signal, bed.PodName(i))
	}
	b.Serve(b.Net.Pod(0), bed.PodPort, bed.NamesItself("tcp0"))
	b.Must(b.Node.Sysctl("netfilter/nf_conntrack_sctp_timeout_closed", "1"))
	call, bound, fenced := calls(b, 0, 1), callsBound(b), callsFenced(b)
	manifests := func() string { return call.String() + bound.String() + fenced }
	d := startRecording(b, manifests(), append([]string{"--kernel-records=all"}, m.Args...)...)

	checkEverywhere(b)
	checkAffinity(b)
	checkFences(b)
	r := kernelRecord(d, "of an association", func(r bed.Record) bool { return r.Service == "shop/call:sig" })
	if r.Protocol != "sctp" || r.Outcome != "ok" || len(r.Attempts) != 1 {
		b.Errorf("recorded as %s", r)
	}
	open := checkRemovedEndpoint(b, d, &call, manifests)
	defer open.Close()
	checkSwitch(b, d, &call, manifests)
	if err := open.Echoes(); err != nil {
		b.Errorf("the association that was open all the time: %v", err)
	}
	call.Pods = nil
	d.Apply(manifests())
	b.Eventually("clients to be refused without an endpoint", func() bool {
		return bed.RefusedSCTP(b.Client, bed.HostPort(bed.IP4, signal))
	})
}

// calls is a Service with a port of SCTP, and one of TCP of the same number.
func calls(b *bed.Bed, pods ...int) bed.Service {
	return bed.Service{
		Name: "call", Kind: "LoadBalancer", IPs: []string{bed.IP4, bed.IP6}, Pods: b.Endpoints(pods...),
		Balancer: []string{bed.Balancer4},
		Ports: []bed.Port{bed.NewPort("sig", "SCTP", signal, signalNode, signal),
			bed.NewPort("http", "TCP", signal, signalNode, bed.PodPort)},
	}
}

const boundIP, fencedIP, fencedBalancer, fencedNode = "10.96.0.21", "10.96.0.22", "198.51.100.122", 30062

func callsBound(b *bed.Bed) bed.Service {
	return bed.Service{Name: "bound", IPs: []string{boundIP}, Affinity: 600, Pods: b.Endpoints(0, 1),
		Ports: []bed.Port{bed.NewPort("sig", "SCTP", signal, 0, signal)}}
}

// callsFenced is one with a Local policy, and with source ranges that have the second client alone.
func callsFenced(b *bed.Bed) string {
	s := bed.Service{Name: "fenced", Kind: "LoadBalancer", IPs: []string{fencedIP}, Balancer: []string{fencedBalancer},
		Pods: b.Endpoints(0), Ports: []bed.Port{bed.NewPort("sig", "SCTP", signal, fencedNode, signal)}}
	return strings.Replace(s.String(), "spec:\n", fmt.Sprintf("spec:\n  externalTrafficPolicy: Local\n"+
		"  loadBalancerSourceRanges: [%q]\n", netip.PrefixFrom(b.Net.Client(1).IPv4, 32)), 1)
}

// checkEverywhere asks by each frontend until both pods have answered: a pod that is one of them too. Clients that are
// not pods are masqueraded, as the endpoint sees.
func checkEverywhere(b *bed.Bed) {
	b.Helper()
	node := bed.HostPort(b.Node.IPv4.String(), signalNode)
	for to, from := range map[string][]*topology.Host{
		bed.HostPort(bed.IP4, signal):       {b.Client, b.Node, b.Net.Pod(0)},
		bed.HostPort(bed.IP6, signal):       {b.Client},
		node:                                {b.Client},
		bed.HostPort(bed.Balancer4, signal): {b.Client},
	} {
		for _, h := range from {
			seen := map[string]bool{}
			for n := 0; n < draws && len(seen) < 2; n++ {
				a, err := bed.AskSCTP(h, to)
				if err != nil {
					b.Errorf("%s from %s: %v", to, h.Name, err)
					break
				}
				if h == b.Client && (a.Client.Addr() == h.IPv4 || a.Client.Addr() == h.IPv6) {
					b.Errorf("%s from %s: the endpoint sees %s, which is not masqueraded", to, h.Name, a.Client)
				}
				seen[a.Pod] = true
			}
			if !seen["pod0"] || !seen["pod1"] {
				b.Errorf("%s from %s: answered by %v, want both", to, h.Name, seen)
			}
		}
	}
}

// checkAffinity wants one pod to answer a client each time: by chance once in 256.
func checkAffinity(b *bed.Bed) {
	b.Helper()
	seen := map[string]bool{}
	for range 9 {
		a, err := bed.AskSCTP(b.Client, bed.HostPort(boundIP, signal))
		if err != nil {
			b.Errorf("with affinity: %v", err)
			return
		}
		seen[a.Pod] = true
	}
	if len(seen) != 1 {
		b.Errorf("with affinity: answered by %v, want one", seen)
	}
}

// checkFences wants source ranges to hold, and a Local policy to leave the client's address.
func checkFences(b *bed.Bed) {
	b.Helper()
	in, out := b.Net.Client(1), b.Client
	if a, err := bed.AskSCTP(in, bed.HostPort(fencedBalancer, signal)); err != nil || a.Client.Addr() != in.IPv4 {
		b.Errorf("a client in the source ranges: %v, %v, want an answer to %s", a, err, in.IPv4)
	}
	to := netip.MustParseAddrPort(bed.HostPort(fencedBalancer, signal))
	if _, a, err := bed.DialSCTP(500*time.Millisecond, out, to); err == nil {
		b.Errorf("a client outside the source ranges: %v, want no answer", a)
	}
	node := bed.HostPort(b.Node.IPv4.String(), fencedNode)
	if a, err := bed.AskSCTP(out, node); err != nil || a.Client.Addr() != out.IPv4 {
		b.Errorf("by a NodePort with a Local policy: %v, %v, want an answer to %s", a, err, out.IPv4)
	}
}

// checkRemovedEndpoint removes one of two endpoints. It returns an association with the other, which goes on.
func checkRemovedEndpoint(b *bed.Bed, d *bed.Daemon, call *bed.Service, manifests func() string) bed.SCTP {
	b.Helper()
	to := netip.MustParseAddrPort(bed.HostPort(bed.IP4, signal))
	var open bed.SCTP
	b.Eventually("an association with pod0", func() bool {
		s, a, err := bed.DialSCTP(bed.AnswerTimeout, b.Client, to)
		b.Must(err)
		if open = s; a.Pod != "pod0" {
			s.Close()
		}
		return a.Pod == "pod0"
	})
	call.Pods = b.Endpoints(0)
	d.Apply(manifests())
	b.Eventually("the endpoint to be removed", func() bool {
		for range 8 { // by chance once in 256, and then what follows fails
			if a, err := bed.AskSCTP(b.Client, to.String()); err != nil || a.Pod != "pod0" {
				return false
			}
		}
		return true
	})
	return open
}

// checkSwitch has listeners carry the Service for a while: clients of SCTP are refused meanwhile, with a Problem of
// that port alone.
func checkSwitch(b *bed.Bed, d *bed.Daemon, call *bed.Service, manifests func() string) {
	b.Helper()
	const problem = `service shop/call: spec.ports[0].protocol: \"SCTP\": is not carried in mode userspace`
	to := bed.HostPort(bed.IP4, signal)
	if strings.Contains(d.Log.String(), problem) {
		b.Error("the Problem is there in kernel mode")
	}
	call.Mode = "userspace"
	d.Apply(manifests())
	b.Eventually("clients to be refused in userspace mode", func() bool { return bed.RefusedSCTP(b.Client, to) })
	if !strings.Contains(d.Log.String(), problem) {
		b.Error("no Problem says why")
	}
	if a, err := bed.Ask(b.Client, "tcp", to); err != nil || a.Pod != "tcp0" {
		b.Errorf("the port of TCP beside it: %v, %v", a, err)
	}
	call.Mode = ""
	d.Apply(manifests())
	b.Eventually("the kernel to carry it again", func() bool {
		a, err := bed.AskSCTP(b.Client, to)
		return err == nil && a.Pod == "pod0"
	})
}
