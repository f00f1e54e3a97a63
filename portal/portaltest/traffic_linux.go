package portaltest

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
)

// Traffic runs what every Writer must do to packets. Open opens one in the namespace of the calling thread, once a
// test. Its mark of the daemon's own packets to endpoints is portal.DefaultDials.
func Traffic(t *testing.T, open func(portal.LocalDetector) (portal.Writer, error)) {
	detector := portal.LocalDetector{
		Sources: prefixes("10.244.0.0/24", "fd00:244::/64"), Interface: "bridge0", InterfacePrefix: "pod",
	}
	for _, test := range []struct {
		name string
		run  func(*Site)
	}{
		{"RedirectAndReject", redirectAndReject},
		{"DropAnswersNothing", dropAnswersNothing},
		{"InsideOnly", insideOnly},
		{"GuardsOpenPorts", guardsOpenPorts},
		{"OwnDialsAreNotRedirected", ownDialsAreNotRedirected},
		{"GuardsByRanges", guardsByRanges},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := NewSite(t, func() (portal.Writer, error) { return open(detector) })
			s.UnlimitICMP()
			s.Write(SitePortals())
			test.run(s)
		})
	}
}

func redirectAndReject(s *Site) {
	for who, from := range map[string]*netnstest.Namespace{"the client": s.Client, "the node": s.Node} {
		s.expectAll(from, who, "80", Answered, "tcp", "udp")
		s.expectAll(from, who, "81", Refused, "tcp", "udp")
	}
}

// The node's own datagrams are not among it: a kernel that drops one tells the sender.
func dropAnswersNothing(s *Site) {
	s.expectAll(s.Client, "the client", "83", Silence, "tcp", "udp")
	s.expectAll(s.Node, "the node", "83", Silence, "tcp")
}

// A Redirect for clients inside the cluster serves the node, and pods however they are detected, and drops flows of
// others.
func insideOnly(s *Site) {
	for why, pod := range map[string]*netnstest.Namespace{
		"a pod by address":          s.podOf("eth1", 244),
		"a pod by interface":        s.podOf("bridge0", 7),
		"a pod by interface prefix": s.podOf("pod1", 8),
		"the node":                  s.Node,
	} {
		s.expectAll(pod, why, "82", Answered, "tcp", "udp")
	}
	s.expectAll(s.Client, "the client", "82", Silence, "tcp", "udp")
	s.expectAll(s.podOf("bridge01", 9), "a client by another interface", "82", Silence, "tcp", "udp")
}

// podOf is a Pod with addresses of 10.NUMBER.0.0/24 and fd00:NUMBER::/64.
func (s *Site) podOf(device string, number int) *netnstest.Namespace {
	s.Helper()
	of := func(low int) []netip.Prefix {
		return prefixes(fmt.Sprintf("10.%d.0.%d/24", number, low), fmt.Sprintf("fd00:%d::%d/64", number, low))
	}
	return s.Pod(device, of(2), of(1))
}
