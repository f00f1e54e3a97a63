package portaltest

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/portald/portald/portal"
)

// Settings are what a Writer is made with.
type Settings struct {
	LocalDetector     portal.LocalDetector
	NodePortAddresses []netip.Prefix // empty = all
	Masquerade        portal.Masquerade
	Dials             uint32
}

// Behaviour is something that every Writer must do with portal.Spread, or says that it cannot.
type Behaviour string

// The behaviours that Spreading tests, each in a site of its own.
const (
	ClusterIPs          Behaviour = "ClusterIPs"          // lead everyone to the endpoints of their scope
	ExternalFrontends   Behaviour = "ExternalFrontends"   // of ClusterScope lead everyone
	NodeScopeOutside    Behaviour = "NodeScopeOutside"    // outsiders have the endpoints of the node, or silence
	NodeScopeInside     Behaviour = "NodeScopeInside"     // those inside have all, whatever the node has
	NodeScopeInsideNone Behaviour = "NodeScopeInsideNone" // those inside have all where the node has none
	PodsByInterface     Behaviour = "PodsByInterface"     // tell who is inside, as addresses do
	NoPodsKnown         Behaviour = "NoPodsKnown"         // nobody is masqueraded who dials a ClusterIP
	NoPodsKnownNode     Behaviour = "NoPodsKnownNode"     // not even the node
	MasqueradeAll       Behaviour = "MasqueradeAll"       // whoever dials a ClusterIP
	SourceRanges        Behaviour = "SourceRanges"        // admit clients to LoadBalancerIPs
	SourceRangesMany    Behaviour = "SourceRangesMany"    // as many as there are, overlapping or not
	SourceRangesNode    Behaviour = "SourceRangesNode"    // admit the node too, or not
	Hairpin             Behaviour = "Hairpin"             // an endpoint reaches itself
	HostEndpoint        Behaviour = "HostEndpoint"        // an endpoint may be the node
	NodePortAddresses   Behaviour = "NodePortAddresses"   // serve node ports, others do not
	LoopbackNodePorts   Behaviour = "LoopbackNodePorts"   // are led nowhere

	AffinityHolds           Behaviour = "AffinityHolds"           // a client to its endpoint, each to its own
	AffinityAcrossFrontends Behaviour = "AffinityAcrossFrontends" // whichever it dials
	AffinityThroughChanges  Behaviour = "AffinityThroughChanges"  // while the endpoint is there
	AffinityForgotten       Behaviour = "AffinityForgotten"       // when the client is away for the timeout

	PoolChanges      Behaviour = "PoolChanges"      // take effect for new connections; open ones live on
	ScopeChanges     Behaviour = "ScopeChanges"     // so do those of traffic policies
	LastEndpointGoes Behaviour = "LastEndpointGoes" // and open connections live on
	PortalGoes       Behaviour = "PortalGoes"       // and is not served
	Flips            Behaviour = "Flips"            // from Redirect to Spread and back lose no connection
	FlipsInHaste     Behaviour = "FlipsInHaste"     // nor do they when packets come by at any moment of it
	Mixed            Behaviour = "Mixed"            // with Redirect, Reject and Drop
	OwnDials         Behaviour = "OwnDials"         // of the daemon itself are led nowhere
)

type behaviour struct {
	name     Behaviour
	run      func(*spreading)
	settings func(*Settings) // nil = pods are known by their addresses
}

func behaviours() []behaviour {
	return []behaviour{
		{ClusterIPs, clusterIPs, nil},
		{ExternalFrontends, externalFrontends, nil},
		{NodeScopeOutside, nodeScopeOutside, nil},
		{NodeScopeInside, nodeScopeInside, nil},
		{NodeScopeInsideNone, nodeScopeInsideNone, nil},
		{PodsByInterface, podsByInterface, func(s *Settings) {
			s.LocalDetector = portal.LocalDetector{Interface: "bridge0", InterfacePrefix: "pod"}
		}},
		{NoPodsKnown, noPodsKnown, nobodyKnown},
		{NoPodsKnownNode, noPodsKnownNode, nobodyKnown},
		{MasqueradeAll, masqueradeAll, func(s *Settings) { s.Masquerade.All = true }},
		{SourceRanges, sourceRanges, nil},
		{SourceRangesMany, sourceRangesMany, nil},
		{SourceRangesNode, sourceRangesNode, nil},
		{Hairpin, hairpin, nil},
		{HostEndpoint, hostEndpoint, nil},
		{NodePortAddresses, nodePortAddresses, func(s *Settings) {
			s.NodePortAddresses = prefixes(NodeV4+"/32", NodeV6+"/128")
		}},
		{LoopbackNodePorts, loopbackNodePorts, nil},
		{AffinityHolds, affinityHolds, nil},
		{AffinityAcrossFrontends, affinityAcrossFrontends, nil},
		{AffinityThroughChanges, affinityThroughChanges, nil},
		{AffinityForgotten, affinityForgotten, nil},
		{PoolChanges, poolChanges, nil},
		{ScopeChanges, scopeChanges, nil},
		{LastEndpointGoes, lastEndpointGoes, nil},
		{PortalGoes, portalGoes, nil},
		{Flips, flips, nil},
		{FlipsInHaste, flipsInHaste, nil},
		{Mixed, mixed, nil},
		{OwnDials, dials, func(s *Settings) { s.Dials = portal.DefaultDials }},
	}
}

func nobodyKnown(s *Settings) { s.LocalDetector = portal.LocalDetector{} }

// Spreading runs what every Writer must do to packets with portal.Spread, without the behaviours that it cannot have.
// Open makes one in a node of its own, once a behaviour.
func Spreading(t *testing.T, open func(Settings) (portal.Writer, error), without ...Behaviour) {
	known := behaviours()
	for _, name := range without {
		if !slices.ContainsFunc(known, func(b behaviour) bool { return b.name == name }) {
			t.Fatalf("there is no behaviour %q to leave out", name)
		}
	}
	for _, b := range known {
		if slices.Contains(without, b.name) {
			continue
		}
		t.Run(string(b.name), func(t *testing.T) {
			settings := Settings{LocalDetector: portal.LocalDetector{Sources: PodSources()}}
			if b.settings != nil {
				b.settings(&settings)
			}
			b.run(newSpreading(t, func() (portal.Writer, error) { return open(settings) }))
		})
	}
}

// spreading is a site with four pods: endpoints a and b of this node, c that stands for one of another node, and a
// guest that serves nobody.
type spreading struct {
	*Site
	client, node, guest *Party
	a, b, c             *Party
}

func newSpreading(t *testing.T, open func() (portal.Writer, error)) *spreading {
	t.Helper()
	s := &spreading{Site: NewSite(t, open)}
	s.UnlimitICMP()
	s.client, s.node = s.Parties()
	s.a = s.AddPod("a", "pod1", 1)
	s.b = s.AddPod("b", "pod2", 2)
	s.c = s.AddPod("c", "eth3", 3)
	s.guest = s.AddPod("guest", "bridge0", 4)
	return s
}

// party finds an endpoint by the name that it answers with.
func (s *spreading) party(name string) *Party {
	for _, p := range []*Party{s.a, s.b, s.c, s.guest, s.node} {
		if p.Name == name {
			return p
		}
	}
	panic(fmt.Sprintf("nobody is called %q", name))
}

// endpoint is where a party answers.
func (s *spreading) endpoint(p *Party, v6 bool) portal.Endpoint {
	return portal.Endpoint{Addr: netip.AddrPortFrom(p.Addrs.Of(v6), podPort), MayHairpin: p != s.c}
}

// pool has these endpoints, by their names; those of the node are offered to NodeScope.
func (s *spreading) pool(v6 bool, names string) *portal.Pool {
	pool := &portal.Pool{}
	for _, name := range names {
		e := s.endpoint(s.party(string(name)), v6)
		pool.Cluster = append(pool.Cluster, e)
		if e.MayHairpin {
			pool.Node = append(pool.Node, e)
		}
	}
	return pool
}
