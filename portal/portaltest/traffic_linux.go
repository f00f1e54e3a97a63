package portaltest

import (
	"testing"

	"github.com/portald/portald/portal"
)

// Pods tell who is inside the cluster beside the node itself: who has one of these addresses, and who comes in by one
// of these interfaces.
type Pods = portal.LocalDetector

// Traffic runs what every Writer must do to packets. Open makes one in a node of its own, once a test; it knows the
// daemon's own dials by portal.DefaultDials.
func Traffic(t *testing.T, open func(inside Pods) (portal.Writer, error)) {
	inside := Pods{Sources: prefixes("10.244.0.0/24", "fd00:244::/64"), Interface: "bridge0", InterfacePrefix: "pod"}
	for _, test := range []struct {
		name string
		run  func(*Site)
	}{
		{"RedirectAndReject", redirectAndReject},
		{"DropAnswersNothing", dropAnswersNothing},
		{"InsideAlone", insideAlone},
		{"GuardsOpenPorts", guardsOpenPorts},
		{"DialsAreNotLed", dialsAreNotLed},
		{"GuardsByRanges", guardsByRanges},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := NewSite(t, func() (portal.Writer, error) { return open(inside) })
			s.UnlimitICMP()
			s.Write(SitePortals())
			test.run(s)
		})
	}
}

func redirectAndReject(s *Site) {
	for who, from := range map[string]*Namespace{"the client": s.Client, "the node": s.Node} {
		s.expectAll(from, who, "80", Answered, "tcp", "udp")
		s.expectAll(from, who, "81", Refused, "tcp", "udp")
	}
}

// What a node's own firewall drops the node itself may be told of: a datagram of its own is refused.
func dropAnswersNothing(s *Site) {
	s.expectAll(s.Client, "the client", "83", Silence, "tcp", "udp")
	s.expectAll(s.Node, "the node", "83", Silence, "tcp")
}

// The daemon's listener serves the node itself, and pods by whatever tells that they are; nobody else hears of it.
func insideAlone(s *Site) {
	for why, pod := range map[string]*Namespace{
		"a pod by address":          s.Pod("eth1", prefixes("10.244.0.2/24", "fd00:244::2/64"), prefixes("10.244.0.1/24", "fd00:244::1/64")),
		"a pod by interface":        s.Pod("bridge0", prefixes("10.7.0.2/24", "fd00:7::2/64"), prefixes("10.7.0.1/24", "fd00:7::1/64")),
		"a pod by interface prefix": s.Pod("pod1", prefixes("10.8.0.2/24", "fd00:8::2/64"), prefixes("10.8.0.1/24", "fd00:8::1/64")),
		"the node":                  s.Node,
	} {
		s.expectAll(pod, why, "82", Answered, "tcp", "udp")
	}
	s.expectAll(s.Client, "the client", "82", Silence, "tcp", "udp")
	s.expectAll(s.Pod("bridge01", prefixes("10.9.0.2/24", "fd00:9::2/64"), prefixes("10.9.0.1/24", "fd00:9::1/64")),
		"a stranger by another interface", "82", Silence, "tcp", "udp")
}
