package portaltest

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Settings are the options of the Writer under test.
type Settings struct {
	LocalDetector     portal.LocalDetector
	NodePortAddresses []netip.Prefix // empty = all
	Masquerade        portal.Masquerade
	Dials             uint32
}

// Behaviour names a requirement of every Writer for portal.Spread, unless its facility cannot fulfil it.
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
	SourceRangesHeld    Behaviour = "SourceRangesHeld"    // admit it also at an address that it has itself
	Hairpin             Behaviour = "Hairpin"             // an endpoint reaches itself by its Service
	HostEndpoint        Behaviour = "HostEndpoint"        // an endpoint may be the node itself
	NodePortAddresses   Behaviour = "NodePortAddresses"   // serve NodePorts, and others do not
	LoopbackNodePorts   Behaviour = "LoopbackNodePorts"   // are not served by rules

	AffinityHolds           Behaviour = "AffinityHolds"           // a client keeps its endpoint
	AffinityAcrossFrontends Behaviour = "AffinityAcrossFrontends" // also by another frontend
	AffinityThroughChanges  Behaviour = "AffinityThroughChanges"  // while the endpoint exists
	AffinityForgotten       Behaviour = "AffinityForgotten"       // after the timeout without a connection

	RoundRobin       Behaviour = "RoundRobin"       // takes endpoints one after the other
	RoundRobinBinds  Behaviour = "RoundRobinBinds"  // clients with affinity, and is exact for new ones
	SourceHash       Behaviour = "SourceHash"       // gives a client the same endpoint on each node
	LeastConnections Behaviour = "LeastConnections" // gives connections to the endpoint with the fewest
	Random           Behaviour = "Random"           // is what is asked for
	AlgorithmChanges Behaviour = "AlgorithmChanges" // apply to new connections, and to nobody else
	AlgorithmsTurn   Behaviour = "AlgorithmsTurn"   // under load, and no connection fails

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
	settings func(*Settings)   // nil = pods are known by their addresses
	offers   service.Algorithm // what the Writer must offer, or must not if it cannot have the behaviour
}

func behaviours() []behaviour {
	return []behaviour{
		{name: ClusterIPs, run: clusterIPs},
		{name: ExternalFrontends, run: externalFrontends},
		{name: NodeScopeOutside, run: nodeScopeOutside},
		{name: NodeScopeInside, run: nodeScopeInside},
		{name: NodeScopeInsideNone, run: nodeScopeInsideNone},
		{name: PodsByInterface, run: podsByInterface, settings: func(s *Settings) {
			s.LocalDetector = portal.LocalDetector{Interface: "bridge0", InterfacePrefix: "pod"}
		}},
		{name: NoPodsKnown, run: noPodsKnown, settings: noDetector},
		{name: NoPodsKnownNode, run: noPodsKnownNode, settings: noDetector},
		{name: MasqueradeAll, run: masqueradeAll, settings: func(s *Settings) { s.Masquerade.All = true }},
		{name: SourceRanges, run: sourceRanges},
		{name: SourceRangesMany, run: sourceRangesMany},
		{name: SourceRangesNode, run: sourceRangesNode},
		{name: SourceRangesHeld, run: sourceRangesHeld},
		{name: Hairpin, run: hairpin},
		{name: HostEndpoint, run: hostEndpoint},
		{name: NodePortAddresses, run: nodePortAddresses, settings: func(s *Settings) {
			s.NodePortAddresses = prefixes(NodeV4+"/32", NodeV6+"/128")
		}},
		{name: LoopbackNodePorts, run: loopbackNodePorts},
		{name: AffinityHolds, run: affinityHolds},
		{name: AffinityAcrossFrontends, run: affinityAcrossFrontends},
		{name: AffinityThroughChanges, run: affinityThroughChanges},
		{name: AffinityForgotten, run: affinityForgotten},
		{name: RoundRobin, run: roundRobin, offers: service.RoundRobin},
		{name: RoundRobinBinds, run: roundRobinBinds, offers: service.RoundRobin},
		{name: SourceHash, run: sourceHash, offers: service.SourceHash},
		{name: LeastConnections, run: leastConnections, offers: service.LeastConnections},
		{name: Random, run: randomly, offers: service.Random},
		{name: AlgorithmChanges, run: algorithmChanges, offers: service.RoundRobin},
		{name: AlgorithmsTurn, run: algorithmsTurn},
		{name: PoolChanges, run: poolChanges},
		{name: ScopeChanges, run: scopeChanges},
		{name: LastEndpointGoes, run: lastEndpointGoes},
		{name: PortalGoes, run: portalGoes},
		{name: Flips, run: flips},
		{name: FlipsUnderLoad, run: flipsUnderLoad},
		{name: Mixed, run: mixed},
		{name: OwnDials, run: dials, settings: func(s *Settings) { s.Dials = portal.DefaultDials }},
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
		can := !slices.Contains(without, b.name)
		if !can && b.offers == service.AlgorithmDefault {
			continue
		}
		t.Run(string(b.name), func(t *testing.T) {
			settings := Settings{LocalDetector: portal.LocalDetector{Sources: PodSources()}}
			if b.settings != nil {
				b.settings(&settings)
			}
			site := newSpreading(t, func() (portal.Writer, error) { return open(settings) })
			site.another = func() *spreading {
				return newSpreading(t, func() (portal.Writer, error) { return open(settings) })
			}
			if offers := site.offers(b.offers); offers != can {
				t.Fatalf("the writer offers %s: %t", b.offers, offers)
			}
			if can {
				b.run(site)
			}
		})
	}
}

// spreading is a site with four pods: endpoints a and b of this node, c that stands for one of another node, and a
// guest that is not an endpoint.
type spreading struct {
	*Site
	client, node, guest *Party
	a, b, c             *Party
	another             func() *spreading // the same as another node, with the same addresses
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
func (s *spreading) endpoint(p *Party, family inet.Family) portal.Endpoint {
	return portal.Endpoint{Addr: netip.AddrPortFrom(p.Addrs.Of(family), podPort), MayHairpin: p != s.c}
}

// pool has these endpoints, by their names; those of the node are offered to NodeScope.
func (s *spreading) pool(family inet.Family, names string) *portal.Pool {
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
