package modes

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/platform"
)

// shortFlows has the kernel of the node forget flows soon, and tell of their ends at once: the kernel itself looks
// through its table once a minute or more often.
func shortFlows(b *bed.Bed) {
	for _, kind := range []string{"tcp_timeout_time_wait", "tcp_timeout_close", "tcp_timeout_syn_sent", "udp_timeout",
		"udp_timeout_stream"} {
		b.Must(b.Node.Sysctl("netfilter/nf_conntrack_"+kind, "1"))
	}
}

// expire has the kernel remove the flows that have expired, which a list does.
func expire(b *bed.Bed) {
	b.Must(b.Node.Do(func() error {
		return platform.ListFlows(b.Context(), false, func([]byte) bool { return true })
	}))
}

// kernelRecord waits for the record of a connection that the kernel carried.
func kernelRecord(d *bed.Daemon, what string, is func(bed.Record) bool) bed.Record {
	d.Helper()
	var out bed.Record
	d.Eventually("the record "+what, func() bool {
		expire(d.Bed)
		for _, r := range d.Records() {
			if r.CarriedBy == "kernel" && is(r) {
				out = r
				return true
			}
		}
		return false
	})
	return out
}

// startRecording starts portald and waits until it receives the ends of flows.
func startRecording(b *bed.Bed, manifests any, args ...string) *bed.Daemon {
	b.Helper()
	d := b.Start(manifests, args...)
	b.Eventually("the kernel's flows to be followed", func() bool {
		return strings.Contains(d.Log.String(), "Records of connections that the kernel carries: on")
	})
	return d
}

// mostResets is how many connections may end by a reset in the virtual machine, of the two dozen: on a kernel that slow
// a FIN is most likely sent again now and then, when its receiver's socket is gone.
const mostResets = 2

// Each connection that the kernel carries has a record, by every kind of frontend, in both families.
func TestKernelRecords(t *testing.T) { bed.EachMode(t, kernelRecords) }

func kernelRecords(b *bed.Bed, m bed.Mode) {
	shortFlows(b)
	b.ServePods(0, 1, 2)
	cart := b.Cart(0, 1, 2)
	cart.Mode, cart.Kind, cart.Balancer = "kernel", "LoadBalancer", []string{bed.Balancer4, bed.Balancer6}
	began := time.Now()
	pod0 := fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: pod0, namespace: shop}\n"+
		"spec: {nodeName: here}\nstatus: {phase: Running, podIPs: [{ip: %q}, {ip: %q}]}\n",
		b.Net.Pod(0).IPv4, b.Net.Pod(0).IPv6)
	d := startRecording(b, cart.String()+pod0, append([]string{"--kernel-records=all", "--client-pods"}, m.Args...)...)
	answers := map[route]bed.Answer{}
	for _, w := range routes(b, "") {
		if loopback := strings.Contains(w.to, "127.0.0.1") || strings.Contains(w.to, "::1]"); loopback || !w.served ||
			w.portal == "ExternalIP" {
			continue // the daemon listens at loopback
		}
		answer, err := bed.Ask(w.from, w.network, w.to)
		b.Must(err)
		answers[w] = answer
	}
	resets := 0
	for w, answer := range answers {
		r := kernelRecord(d, "of "+w.String(), func(r bed.Record) bool {
			return r.Client == answer.Client.String() && r.OriginalDst == w.to && r.Protocol == w.network
		})
		if from := map[bool]string{true: "shop/pod0"}[w.from == b.Net.Pod(0)]; r.ClientPod != from {
			b.Errorf("%s comes from pod %q: %+v", w, from, r)
		}
		if bed.InVM && r.Outcome == "reset" && resets < mostResets {
			resets++
			r.Outcome = "ok"
		}
		const least int64 = 28 + 4 // headers and the shorter of question and answer
		if r.Portal != w.portal || r.Pod != "shop/"+answer.Pod || r.Outcome != "ok" || r.Node != "here" || r.Proxy == "" ||
			r.BytesFromClient < least || r.BytesFromEndpoint < least || r.Time.Before(began) || r.DurationMS > 900 {
			b.Errorf("%s, answered by %s: %+v", w, answer.Pod, r)
		}
	}
}

// Failures are told apart, and only they have records where only failures are asked for; the annotation changes that
// while the daemon runs.
func TestKernelRecordsOfFailures(t *testing.T) { bed.EachMode(t, kernelRecordsOfFailures) }

func kernelRecordsOfFailures(b *bed.Bed, m bed.Mode) {
	shortFlows(b)
	b.ServePods(0)
	b.Serve(b.Net.Pod(0), 8081, func(c *net.TCPConn) { _ = c.SetLinger(0) }) // resets
	service := func(name string, last, target int, annotations ...string) bed.Service {
		s := b.Cart(0)
		s.Name, s.Kind, s.Mode, s.IPs = name, "", "kernel", []string{fmt.Sprintf("10.96.0.%d", last)}
		s.Ports = []bed.Port{bed.NewPort("http", "TCP", 80, 0, target), bed.NewPort("talk", "UDP", 80, 0, target)}
		s.Annotations = annotations
		return s
	}
	silent := service("silent", 13, bed.PodPort)
	silent.Pods = []bed.Endpoint{{Pod: "nobody", V4: netip.MustParseAddr("10.244.0.77")}}
	all := func(annotations ...string) string {
		return fmt.Sprintf("%s%s%s%s", service("good", 10, bed.PodPort, annotations...), service("refuses", 11, 9),
			service("resets", 12, 8081), silent)
	}
	d := startRecording(b, all(), append([]string{"--kernel-records=failures"}, m.Args...)...)
	ask := func(network string, last int) bed.Answer {
		answer, _ := bed.AskWithin(bed.VMTimeout(time.Second), b.Client, network, fmt.Sprintf("10.96.0.%d:80", last))
		return answer
	}
	good := ask("tcp", 10)
	for _, last := range []int{11, 12, 13} {
		ask("tcp", last)
	}
	ask("udp", 13)
	for service, outcome := range map[string]string{
		"shop/refuses:http": "dial_failed", "shop/resets:http": "reset", "shop/silent:http": "dial_failed",
		"shop/silent:talk": "unanswered",
	} {
		kernelRecord(d, "of "+service, func(r bed.Record) bool {
			return r.Service == service && r.Outcome == outcome
		})
	}
	d.Apply(all("portald.io/kernel-records: all"))
	later := ask("tcp", 10)
	kernelRecord(d, "of a good connection", func(r bed.Record) bool { return r.Client == later.Client.String() })
	d.Apply(all("portald.io/kernel-records: \"off\""))
	unseen := ask("tcp", 10)
	ask("tcp", 11)
	kernelRecord(d, "of another failure", func(r bed.Record) bool {
		return r.Service == "shop/refuses:http" && r.Client != "" && r.Time.After(time.Now().Add(-5*time.Second))
	})
	for _, r := range d.Records() {
		if r.Client == good.Client.String() || r.Client == unseen.Client.String() {
			b.Errorf("a record that nobody asked for: %s", r)
		}
	}
}
