package faults

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/explain"
)

// silent is a pod beside a healthy one that does not answer, and what tells why.
type silent struct {
	plant    func(*node)
	passive  string // a part of the verdict without a probe; empty: all is well
	unseen   bool   // without a probe the kernel's connections tell nothing
	probe    string // a part of the verdict with one
	row      string // a part of what it says of the pod: CONNECT, HOST, VERDICT
	noServer bool   // nothing listens, unless plant does
}

const (
	hostUp = "its host is up (refuses another port), and this port does not answer: a filter, or the pod's accept queue " +
		"is full"
	hostGone = "its host does not answer (neighbour "
)

func silences() map[string]silent {
	up := silent{passive: "its host is up (neighbour ", probe: hostUp, row: "timeout, up, " + hostUp}
	gone := silent{passive: hostGone, probe: hostGone, row: ", neighbour "}
	filtered, full, noAddress, noLink := up, up, gone, gone
	filtered.plant = podRuns("iptables", "-I", "INPUT", "-p", "tcp", "--dport", "8080", "-j", "DROP")
	full.plant, full.noServer = fillsQueue, true
	noAddress.plant = podRuns("ip", "address", "flush", "dev", "eth0")
	noLink.plant = podRuns("ip", "link", "set", "eth0", "down")
	return map[string]silent{
		"healthy":                  {plant: func(*node) {}, row: "accepted, up, accepts"},
		"the port is filtered":     filtered,
		"the accept queue is full": full,
		"its address is gone":      noAddress,
		"its link is down":         noLink,
		"nothing listens": {
			plant: func(*node) {}, noServer: true, unseen: true, passive: "nothing listens at port 8080 there",
			probe: "nothing listens", row: "refused, up, nothing listens (refused)",
		},
		"no route leads there": {
			plant: func(n *node) {
				n.On(n.Node, "ip", "route", "replace", "unreachable", n.Net.Pod(1).IPv4.String()+"/32")
			}, unseen: true, passive: "no route (the route is unreachable)", probe: "no route (the route is unreachable)",
			row: "unreachable, , no route (the route is unreachable)",
		},
	}
}

// podRuns runs a command in the pod.
func podRuns(line ...string) func(*node) {
	return func(n *node) { n.On(n.Net.Pod(1), line[0], line[1:]...) }
}

// fillsQueue has the pod listen and accept nothing, with a queue that one connection fills.
func fillsQueue(n *node) {
	n.Helper()
	n.Must(n.Net.Pod(1).Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		n.Cleanup(func() { unix.Close(fd) })
		return errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Port: bed.PodPort}), unix.Listen(fd, 0))
	}))
	c, err := n.Net.Pod(1).Dial(n.Context(), "tcp", bed.HostPort(n.Net.Pod(1).IPv4.String(), bed.PodPort))
	n.Must(err)
	n.Cleanup(func() { c.Close() })
}

// Explain tells host, port and network apart where a pod does not answer: by what the kernel knows, and by a probe.
func TestSilentPods(t *testing.T) {
	for name, fault := range silences() {
		t.Run(name, func(t *testing.T) {
			for _, m := range bed.Modes() {
				t.Run(m.Name, func(t *testing.T) { fault.happens(t, m) })
			}
		})
	}
}

// probeOf is what a report says of the probe of a pod.
func probeOf(r explain.Report, pod netip.Addr) string {
	for _, p := range r.Probes {
		if p.Endpoint.Addr() == pod {
			return strings.Join([]string{p.Endpoint.String(), p.Connect, p.Host, p.Verdict}, ", ")
		}
	}
	return ""
}

// askAgain has the node ask for the address of a pod whose host is up, for further clients: on a busy machine a client
// sent again what had no answer, after the host had answered, and what came before tells nothing.
func (s silent) askAgain(n *node) {
	n.Helper()
	if strings.HasPrefix(s.passive, "its host is up") {
		n.On(n.Node, "ip", "neighbour", "flush", "to", n.Net.Pod(1).IPv4.String())
		tries(4)(n)
	}
}

func (s silent) happens(t *testing.T, m bed.Mode) {
	b := bed.New(t, "ip")
	b.ServePods(0)
	if !s.noServer {
		b.ServePods(1)
	}
	n := &node{Bed: b, daemon: b.Start(b.Cart(0, 1), append(m.Args, "--connect-timeouts", "50ms,100ms")...)}
	n.daemon.ExpectErrors = true
	s.plant(n)
	tries(16)(n)
	var r explain.Report
	finds := func(what string, args ...string) bool {
		r = n.explain(append(args, "shop/cart:http")...)
		if s.passive == "" {
			return r.Verdict.Status == explain.Good
		}
		return r.Verdict.Status != explain.Good && strings.Contains(r.Verdict.Text, what) && r.Next != "" &&
			strings.Contains(r.Verdict.Text, "(pod shop/pod1)")
	}
	found := func() bool {
		if finds(s.passive) {
			return true
		}
		s.askAgain(n)
		return false
	}
	if !(m.Kernel && s.unseen) && !bed.Within(seenWithin, found) {
		n.Errorf("want %q: the verdict is %+v, next %q\n%s", s.passive, r.Verdict, r.Next, lines(r))
	}
	if len(r.Probes) > 0 {
		n.Errorf("nobody asked for a probe: %+v", r.Probes)
	}
	if !finds(s.probe, "--probe") {
		n.Errorf("a probe: want %q: the verdict is %+v, next %q\n%s", s.probe, r.Verdict, r.Next, lines(r))
	}
	for i, want := range []string{", accepted, up, accepts", s.row} {
		if row := probeOf(r, n.Net.Pod(i).IPv4); !strings.Contains(row, want) {
			n.Errorf("pod %d: the probe says %q, want %q", i, row, want)
		}
	}
}
