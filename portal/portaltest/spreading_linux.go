package portaltest

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// Settings are what a Writer is made with.
type Settings struct {
	LocalDetector     portal.LocalDetector
	NodePortAddresses []netip.Prefix // empty = all
	Masquerade        portal.Masquerade
	Dials             uint32
}

// Behaviour is what every Writer must do with portal.Spread, unless its facility cannot.
type Behaviour string

// The behaviours that Spreading tests, each in a site of its own.
const (
	ClusterIPs          Behaviour = "ClusterIPs"          // have the endpoints of their scope for everyone
	ExternalFrontends   Behaviour = "ExternalFrontends"   // of ClusterScope have those of the cluster for everyone
	NodeScopeOutside    Behaviour = "NodeScopeOutside"    // clients outside have the node's endpoints, or are dropped
	NodeScopeInside     Behaviour = "NodeScopeInside"     // clients inside have the cluster's endpoints
	NodeScopeInsideNone Behaviour = "NodeScopeInsideNone" // also while the node has none
	PodsByInterface     Behaviour = "PodsByInterface"     // pods are detected by interface
	NoPodsKnown         Behaviour = "NoPodsKnown"         // clients of ClusterIPs keep their addresses
	NoPodsKnownNode     Behaviour = "NoPodsKnownNode"     // so does the node
	MasqueradeAll       Behaviour = "MasqueradeAll"       // all clients of ClusterIPs are masqueraded
	SourceRanges        Behaviour = "SourceRanges"        // only admitted clients use LoadBalancerIPs
	SourceRangesMany    Behaviour = "SourceRangesMany"    // a thousand of them, overlapping or not
	SourceRangesNode    Behaviour = "SourceRangesNode"    // admit the node, or do not
	Hairpin             Behaviour = "Hairpin"             // an endpoint reaches itself by its Service
	HostEndpoint        Behaviour = "HostEndpoint"        // an endpoint may be the node itself
	NodePortAddresses   Behaviour = "NodePortAddresses"   // serve NodePorts, and others do not
	LoopbackNodePorts   Behaviour = "LoopbackNodePorts"   // are not served by rules

	AffinityHolds           Behaviour = "AffinityHolds"           // a client keeps its endpoint
	AffinityAcrossFrontends Behaviour = "AffinityAcrossFrontends" // also by another frontend
	AffinityThroughChanges  Behaviour = "AffinityThroughChanges"  // while the endpoint exists
	AffinityForgotten       Behaviour = "AffinityForgotten"       // after the timeout without a connection

	PoolChanges      Behaviour = "PoolChanges"      // apply to new connections; open ones live on
	ScopeChanges     Behaviour = "ScopeChanges"     // so do changes of traffic policies
	LastEndpointGoes Behaviour = "LastEndpointGoes" // and open connections live on
	PortalGoes       Behaviour = "PortalGoes"       // and is not served any more
	Flips            Behaviour = "Flips"            // between Redirect and Spread lose no connection
	FlipsUnderLoad   Behaviour = "FlipsUnderLoad"   // nor with packets at any moment of a flip
	Mixed            Behaviour = "Mixed"            // with Redirect, Reject and Drop
	OwnDials         Behaviour = "OwnDials"         // of the daemon are not translated
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
		{NoPodsKnown, noPodsKnown, noDetector},
		{NoPodsKnownNode, noPodsKnownNode, noDetector},
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
		{FlipsUnderLoad, flipsUnderLoad, nil},
		{Mixed, mixed, nil},
		{OwnDials, dials, func(s *Settings) { s.Dials = portal.DefaultDials }},
	}
}

func noDetector(s *Settings) { s.LocalDetector = portal.LocalDetector{} }

// Spreading runs what every Writer must do to packets with portal.Spread, without the behaviours that its facility
// cannot have. Open opens a Writer in the namespace of the calling thread, once a behaviour.
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
// guest that is not an endpoint.
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
	panic(fmt.Sprintf("there is no party %q", name))
}

// endpoint is where a party answers.
func (s *spreading) endpoint(p *Party, family service.IPFamily) portal.Endpoint {
	return portal.Endpoint{Addr: netip.AddrPortFrom(p.Addrs.Of(family), podPort), MayHairpin: p != s.c}
}

// pool has these endpoints, by their names; those of the node are offered to NodeScope.
func (s *spreading) pool(family service.IPFamily, names string) *portal.Pool {
	pool := &portal.Pool{}
	for _, name := range names {
		e := s.endpoint(s.party(string(name)), family)
		pool.Cluster = append(pool.Cluster, e)
		if e.MayHairpin {
			pool.Node = append(pool.Node, e)
		}
	}
	return pool
}
