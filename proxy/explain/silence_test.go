package explain

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/reach"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

// Why an endpoint does not answer is told by what the kernel knows of its host.
func TestSilence(t *testing.T) {
	const left = cartA + " left 3 of 3 dials of shop/cart:http in the last 3s unanswered: "
	const never = cartA + " cannot be reached, in 3 of 3 dials of shop/cart:http in the last 3s: "
	hop := netip.MustParseAddr("192.0.2.9")
	networks, pods := "kubectl get networkpolicies -n shop", "kubectl get pods -o wide -n shop"
	for _, c := range []struct {
		name    string
		path    reach.Path
		err     string
		verdict string
		next    string
	}{
		{"nothing is known", reach.Path{}, record.TimedOut,
			left + "its host is gone, a filter drops the packets, or its accept queue is full.",
			"portald explain shop/cart:http --probe"},
		{"its host does not answer", reach.Path{Neighbor: reach.Failed}, record.TimedOut,
			left + "its host does not answer (neighbour FAILED): pod or node is gone, or the network.", pods},
		{"nor does its node", reach.Path{Neighbor: reach.Incomplete, Via: hop}, record.TimedOut,
			left + "the next hop 192.0.2.9 does not answer (neighbour INCOMPLETE): its node is gone, or the network.", pods},
		{"no route", reach.Path{NoRoute: "network is unreachable"}, syscall.ENETUNREACH.Error(),
			never + syscall.ENETUNREACH.Error() + ": no route (network is unreachable).", pods},
		{"its host answered since", reach.Path{Neighbor: "STALE", Confirmed: now.Add(-2 * time.Second)}, record.TimedOut,
			left + "its host is up (neighbour STALE, answered 2s ago), and this port does not answer: a filter, or the pod's " +
				"accept queue is full.", networks},
		{"its host answered before", reach.Path{Neighbor: "STALE", Confirmed: now.Add(-4 * time.Second)}, record.TimedOut,
			left + "its host is gone, a filter drops the packets, or its accept queue is full.",
			"portald explain shop/cart:http --probe"},
		{"its node answered since", reach.Path{Neighbor: "STALE", Confirmed: now, Via: hop}, record.TimedOut,
			left + "its host is gone, a filter drops the packets, or its accept queue is full.",
			"portald explain shop/cart:http --probe"},
		{"it is this node", reach.Path{Here: true}, record.TimedOut, left + "its host is up (it is this node), and this " +
			"port does not answer: a filter, or the pod's accept queue is full.", networks},
		{"the kernel said that there is no host", reach.Path{Neighbor: reach.Failed}, noRoute,
			never + noRoute + ": its host does not answer (neighbour FAILED): pod or node is gone, or the network.", pods},
		{"a router said that", reach.Path{Neighbor: "REACHABLE", Confirmed: now}, noRoute,
			never + noRoute + ": its host is up now (neighbour REACHABLE, answered 0s ago), so a router or a filter said " +
				"that, or the host was gone then.", networks},
		{"this node does not send", reach.Path{}, syscall.EPERM.Error(),
			"3 of 3 dials of shop/cart:http to " + cartA + " in the last 3s did not leave this node: " + syscall.EPERM.Error() +
				": a route that prohibits it, or a program that filters what sockets connect to.", "ip route get 10.244.0.2"},
	} {
		s := newScene()
		s.node.Path = func(a netip.Addr) reach.Path {
			if a != s.Port.Endpoints[0].Addr.Addr() {
				t.Errorf("%s: the way to %s is looked up, of which nothing failed", c.name, a)
			}
			return c.path
		}
		(&past{s: s}).add(3, 0, notReached(c.err))
		r := s.explain(t)
		if !strings.HasPrefix(r.Verdict.Text, c.verdict) || r.Next != c.next {
			t.Errorf("%s: verdict %+v, next %q; want %q, next %q", c.name, r.Verdict, r.Next, c.verdict, c.next)
		}
	}
}

// Where the kernel carries a Service, its entries tell when somebody asked last who got no answer.
func TestSilenceOfFlows(t *testing.T) {
	for _, c := range []struct {
		name string
		path reach.Path
		want string
	}{
		{"its host answered since", reach.Path{Neighbor: "REACHABLE", Confirmed: now.Add(-9 * time.Second)},
			"no answer: its host is up (neighbour REACHABLE, answered 9s ago)"},
		{"its host answered before", reach.Path{Neighbor: "REACHABLE", Confirmed: now.Add(-11 * time.Second)},
			"no answer: its host is gone, a filter"},
		{"its host does not answer", reach.Path{Neighbor: reach.Failed},
			"no answer: its host does not answer (neighbour FAILED)"},
	} {
		s := newScene()
		s.Port.Mode, s.Applied.Mode = service.ModeKernel, service.ModeKernel
		s.node.Path, s.node.SynSent = func(netip.Addr) reach.Path { return c.path }, 2*time.Minute
		for i := range uint16(3) { // the first was asked 10 s ago
			s.Flows = append(s.Flows, flows.Flow{Protocol: inet.TCP, From: netip.AddrPortFrom(pod, 4000+i), To: clusterIP,
				Replier: s.Port.Endpoints[0].Addr, State: flows.SynSent, Timeout: 110 + uint32(i)})
		}
		if r := s.explain(t); !strings.Contains(r.Verdict.Text, c.want) {
			t.Errorf("%s: verdict %+v", c.name, r.Verdict)
		}
	}
}
