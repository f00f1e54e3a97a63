package faults

import (
	"io"
	"maps"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/explain"
)

// handler is what a pod does with a connection.
type handler = func(*net.TCPConn)

// incident is what users saw of a Service with two pods, and what explain says of it. Without the fault, the same
// traffic of the same Service ends with a verdict that all is well.
type incident struct {
	of       string // what is explained; default: the Service
	verdict  string // a part of it
	says     string // a part of a line; empty: the verdict is enough
	faulty   func(name string) handler
	manifest func(*node) string
	plant    func(*node)
	traffic  func(*node) // default: twenty connections, one after the other
	args     []string    // of the daemon
	crash    bool        // the second pod ends by FIN and refuses dials, when the traffic calls n.fails
	kernel   bool        // it is seen in kernel mode
	only     bool        // and there alone
	cart     func(*bed.Service)
}

// resetsHalf resets every second connection.
func resetsHalf(name string) handler {
	var n atomic.Int32
	return func(c *net.TCPConn) {
		if n.Add(1)%2 == 0 {
			_ = c.SetLinger(0)
			return
		}
		bed.NamesItself(name)(c)
	}
}

// answersLate sends its first byte after a while.
func answersLate(name string) handler {
	return func(c *net.TCPConn) {
		time.Sleep(150 * time.Millisecond)
		bed.NamesItself(name)(c)
	}
}

// answersNever takes what a client sends, and sends nothing.
func answersNever(string) handler {
	return func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }
}

func incidents() map[string]incident {
	return map[string]incident{
		"one pod resets half of its connections": {
			faulty: resetsHalf, verdict: "connections of shop/cart:http were reset by it", says: "(pod shop/pod1): ",
		},
		"the pods listen at another port": {
			verdict: "nothing listens at port 9999; is targetPort", says: "connection refused",
			cart: func(s *bed.Service) { s.Ports[0].Target = 9999 }, args: []string{"--connect-timeouts", "50ms,100ms"},
		},
		"one pod is a hundred times slower": {
			faulty: answersLate, verdict: "(pod shop/pod1) is slow: its first byte takes",
		},
		"one pod accepts and does not answer": {
			faulty: answersNever, traffic: sends(8), verdict: "open connections to 10.244.0.3:8080 (pod shop/pod1) as an " +
				"endpoint of shop/cart:http have sent something, and got nothing back", says: "that it has not answered",
		},
		"one pod crashes in mid-answer": {
			traffic: holds(10), crash: true, verdict: "(pod shop/pod1) crashed, or was killed: it closed 5 of ",
			says: "closed early",
		},
		"the packets to one pod are dropped": {
			plant: dropsSYN(1), kernel: true, only: true, traffic: triesUntil(2), verdict: "(pod shop/pod1) as an endpoint of " +
				"shop/cart:http have no answer", says: "SYN_SENT, no answer yet",
		},
		"nothing listens at a UDP port": {
			of: "shop/cart:talk", kernel: true, only: true, traffic: sendsDatagrams(6), verdict: "shop/cart:talk have no " +
				"answer: nothing listens at port 9999 there", says: "no answer yet",
			cart: func(s *bed.Service) { s.Ports[1].Target = 9999 },
		},
		"a server does not answer datagrams": {
			of: "shop/cart:talk", traffic: sendsDatagrams(6), verdict: "have sent something, and got nothing back",
			says: "that it has not answered", plant: func(n *node) {
				n.On(n.Net.Pod(0), "iptables", "-I", "INPUT", "-p", "udp", "-j", "DROP")
				n.On(n.Net.Pod(1), "iptables", "-I", "INPUT", "-p", "udp", "-j", "DROP")
			},
		},
		"the kernel sees one pod reset its connections": {
			faulty: resetsHalf, kernel: true, only: true, verdict: "(pod shop/pod1): ", says: "reset",
			cart: func(s *bed.Service) { s.Annotations = append(s.Annotations, "portald.io/kernel-records: all") },
		},
		"the failures of one pod alone are recorded": {
			faulty: resetsHalf, kernel: true, only: true, verdict: "connections (what goes well is not recorded)",
			cart: func(s *bed.Service) { s.Annotations = append(s.Annotations, "portald.io/kernel-records: failures") },
		},
		"two annotations are mistyped": {
			verdict: `portald.io/mode: "usersapce" must be userspace or kernel (did you mean userspace?); the daemon's setting ` +
				`is used; portald.io/retry-no: "reset" is unknown and has no effect; did you mean portald.io/retry-on`,
			cart: func(s *bed.Service) {
				s.Annotations = append(s.Annotations, "portald.io/mode: usersapce", "portald.io/retry-no: reset")
			}, kernel: true,
		},
	}
}

// dropsSYN has a pod drop what begins a connection.
func dropsSYN(pod int) func(*node) {
	return func(n *node) {
		n.On(n.Net.Pod(pod), "iptables", "-I", "INPUT", "-p", "tcp", "--syn", "-j", "DROP")
	}
}

// tries connects some times, each for a short while alone.
func tries(times int) func(*node) {
	return func(n *node) {
		for range times {
			_, _ = bed.AskWithin(200*time.Millisecond, n.Client, "tcp", bed.HostPort(bed.IP4, 80))
		}
	}
}

// triesUntil connects until so many had no answer. Of a kernel that chooses at random one pod in two may not see that
// many, once in 27 billion times.
func triesUntil(silent int) func(*node) {
	return func(n *node) {
		seen := 0
		for i := 0; i < 40 && seen < silent; i++ {
			if _, err := bed.AskWithin(200*time.Millisecond, n.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil {
				seen++
			}
		}
	}
}

// sends opens connections that stay open, and sends something by each.
func sends(times int) func(*node) {
	return func(n *node) {
		n.Helper()
		n.keep(times, "hello\n")
	}
}

// keep opens connections that stay open, and sends a text by each.
func (n *node) keep(times int, text string) {
	n.Helper()
	for range times {
		c, err := bed.Dial(bed.LongestTest, n.Client, "tcp", bed.HostPort(bed.IP4, 80))
		n.Must(err)
		n.Cleanup(func() { c.Close() })
		_, err = io.WriteString(c, text)
		n.Must(err)
	}
}

// holds opens connections, which are in mid-exchange when a pod fails. Others come after that.
func holds(times int) func(*node) {
	return func(n *node) {
		n.Helper()
		var all []net.Conn
		for range times {
			c, err := bed.Dial(bed.LongestTest, n.Client, "tcp", bed.HostPort(bed.IP4, 80))
			n.Must(err)
			defer c.Close()
			all = append(all, c)
		}
		for _, c := range all {
			_, err := io.WriteString(c, "hello\n")
			n.Must(err)
			_, err = io.ReadFull(c, make([]byte, len(bed.PodName(0)+"\nhello\n")))
			n.Must(err)
		}
		n.fails()
		asks(10)(n)
	}
}

// sendsDatagrams sends a datagram from each of some ports.
func sendsDatagrams(times int) func(*node) {
	return func(n *node) {
		n.Helper()
		for range times {
			c, err := bed.Dial(bed.LongestTest, n.Client, "udp", bed.HostPort(bed.IP4, 80))
			n.Must(err)
			n.Cleanup(func() { c.Close() })
			_, err = io.WriteString(c, bed.WhoAreYou)
			n.Must(err)
		}
	}
}

// seenWithin is longer than conntrack keeps a connection that was reset: its record comes then.
var seenWithin = bed.VMTimeout(20 * time.Second)

// Explain names each incident, and says nothing of the same traffic without the fault.
func TestIncidents(t *testing.T) {
	all := incidents()
	maps.Copy(all, pathIncidents())
	for name, in := range all {
		t.Run(name, func(t *testing.T) {
			for _, m := range bed.Modes() {
				if m.Kernel && !in.kernel || !m.Kernel && in.only {
					continue
				}
				t.Run(m.Name, func(t *testing.T) {
					t.Run("healthy", func(t *testing.T) { in.twin().happens(t, m) })
					t.Run("faulty", func(t *testing.T) { in.happens(t, m) })
				})
			}
		})
	}
}

// twin is the same without the fault.
func (in incident) twin() incident {
	in.verdict, in.says, in.faulty, in.plant, in.manifest, in.cart = "", "", nil, nil, nil, nil
	in.crash = false
	return in
}

func (in incident) happens(t *testing.T, m bed.Mode) {
	b := bed.New(t, "env")
	if in.faulty == nil {
		in.faulty = bed.NamesItself
	}
	b.ServePods(0)
	pod := b.Serve(b.Net.Pod(1), bed.PodPort, in.faulty(bed.PodName(1)))
	b.ServeUDP(b.Net.Pod(1), bed.PodPort, bed.PodName(1))
	cart := b.Cart(0, 1)
	if in.cart != nil {
		in.cart(&cart)
	}
	n := &node{Bed: b, daemon: b.Start(cart, append(m.Args, in.args...)...)}
	n.daemon.ExpectErrors = true
	n.fails = func() {}
	if in.crash {
		n.fails = pod.Stop
	}
	if in.plant != nil {
		in.plant(n)
	}
	if in.traffic == nil {
		in.traffic = asks(20)
	}
	in.traffic(n)
	if in.of == "" {
		in.of = "shop/cart:http"
	}
	var r explain.Report
	named := func() bool { // records arrive when connections have ended
		r = n.explain(in.of)
		if in.verdict == "" {
			seen := m.Kernel || strings.Contains(lines(r), " ago: id ") || strings.Contains(lines(r), "open connection")
			return seen && r.Verdict.Status == explain.Good
		}
		return r.Verdict.Status != explain.Good && strings.Contains(r.Verdict.Text, in.verdict) &&
			strings.Contains(lines(r), in.says) && r.Next != ""
	}
	if !bed.Within(seenWithin, named) {
		t.Errorf("want %q and %q: the verdict is %+v, next %q\n%s", in.verdict, in.says, r.Verdict, r.Next, lines(r))
	}
}
