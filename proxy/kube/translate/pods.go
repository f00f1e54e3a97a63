package translate

import (
	"net/netip"
	"slices"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/portal/service"
)

// trimmedPod is a Pod: the addresses by which it is a client.
type trimmedPod struct {
	identity
	name  string // "namespace/name"
	node  unique.Handle[string]
	host  bool // its addresses are its node's
	ends  bool // it terminates: another may have its addresses before it is gone
	addrs []netip.Addr
}

// trimPod has no addresses of a pod that has ended: others may have them.
func trimPod(p *corev1.Pod) *trimmedPod {
	out := &trimmedPod{
		identity: identityOf(KindPod, p), name: p.Namespace + "/" + p.Name,
		node: unique.Make(p.Spec.NodeName), host: p.Spec.HostNetwork, ends: p.DeletionTimestamp != nil,
	}
	out.id.Namespace, out.id.Name = out.name[:len(p.Namespace)], out.name[len(p.Namespace)+1:] // of the same memory
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return out
	}
	for _, ip := range p.Status.PodIPs {
		if addr, advice := parseAddr(ip.IP); advice == "" {
			out.addrs = append(out.addrs, addr)
		}
	}
	return out
}

// clients tells which pod has an address. Reading it takes a lock of one shard, for a moment; writers hold the lock of
// the Cache too.
type clients struct {
	pods   map[Key]*trimmedPod // guarded by the Cache
	shards [64]clientShard

	mu    sync.RWMutex
	zones map[string][]zoneCount // by node, as EndpointSlices tell them; guarded by mu
}

// zoneCount is how many endpoints of slices say that their node is in a zone.
type zoneCount struct {
	zone      string
	endpoints int
}

type clientShard struct {
	mu     sync.RWMutex
	byAddr map[netip.Addr]client   // guarded by mu
	others map[netip.Addr][]client // guarded by mu; pods with an address that another one has, the latest last
}

// client is who has an address: one pod, or a node with so many pods.
type client struct {
	pod  string // "namespace/name"; empty: a node
	node string
	pods int
	ends bool
}

func newClients() *clients {
	return &clients{pods: map[Key]*trimmedPod{}, zones: map[string][]zoneCount{}}
}

// Workload returns the pod that has an address, or only the node where pods share it with the node; false: it is not
// known. The zone is known of nodes with endpoints of a Service. Without Options.ClientPods nothing is known.
func (c *Cache) Workload(addr netip.Addr) (service.Workload, bool) {
	if !c.opts.ClientPods {
		return service.Workload{}, false
	}
	s := c.clients.shard(addr)
	s.mu.RLock()
	who, known := s.byAddr[addr]
	s.mu.RUnlock()
	if !known {
		return service.Workload{}, false
	}
	return service.Workload{Pod: who.pod, Node: who.node, Zone: c.clients.zoneOf(who.node)}, true
}

func (c *clients) shard(addr netip.Addr) *clientShard {
	b := addr.As16()
	return &c.shards[int(b[15])%len(c.shards)]
}

func (c *clients) put(p *trimmedPod) {
	c.remove(p.id)
	c.pods[p.id] = p
	for _, addr := range p.addrs {
		c.shard(addr).put(addr, p)
	}
}

func (c *clients) remove(key Key) {
	p := c.pods[key]
	if p == nil {
		return
	}
	delete(c.pods, key)
	for _, addr := range p.addrs {
		c.shard(addr).remove(addr, p)
	}
}

// put has a pod have an address, unless one has it that lives while this one ends.
func (s *clientShard) put(addr netip.Addr, p *trimmedPod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byAddr == nil {
		s.byAddr, s.others = map[netip.Addr]client{}, map[netip.Addr][]client{}
	}
	is, was := client{pod: p.name, node: p.node.Value(), ends: p.ends}, s.byAddr[addr]
	if p.host {
		is.pod, is.pods, is.ends = "", was.pods+1, false
	} else if was.pod != "" {
		if is.ends && !was.ends {
			is, was = was, is
		}
		s.others[addr] = append(s.others[addr], was)
	}
	s.byAddr[addr] = is
}

// remove forgets that a pod has an address. Another pod that has it too is who has it then.
func (s *clientShard) remove(addr netip.Addr, p *trimmedPod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is, others := s.byAddr[addr], s.others[addr]
	switch {
	case p.host && is.pods > 1:
		is.pods--
		s.byAddr[addr] = is
	case p.host != (is.pod == ""):
	case p.host || is.pod == p.name && len(others) == 0:
		delete(s.byAddr, addr)
	case is.pod == p.name:
		next := len(others) - 1
		for i, o := range others {
			if !o.ends {
				next = i
			}
		}
		s.byAddr[addr] = others[next]
		s.setOthers(addr, slices.Delete(others, next, next+1))
	default:
		s.setOthers(addr, slices.DeleteFunc(others, func(o client) bool { return o.pod == p.name }))
	}
}

func (s *clientShard) setOthers(addr netip.Addr, others []client) {
	if len(others) == 0 {
		delete(s.others, addr)
	} else {
		s.others[addr] = others
	}
}

// zoneOf is the zone of a node; empty if it is not known.
func (c *clients) zoneOf(node string) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if said := c.zones[node]; len(said) == 1 {
		return said[0].zone
	}
	return ""
}

// learn notes what the endpoints of a slice say of the zones of nodes, in place of those that it had before.
func (c *clients) learn(before, next []sliceEndpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range next {
		c.say(e.traits.Value(), 1)
	}
	for _, e := range before {
		c.say(e.traits.Value(), -1)
	}
}

// say is called with mu held.
func (c *clients) say(t traits, endpoints int) {
	if t.node == "" || t.zone == "" {
		return
	}
	said := c.zones[t.node]
	at := slices.IndexFunc(said, func(s zoneCount) bool { return s.zone == t.zone })
	if at < 0 {
		c.zones[t.node] = append(said, zoneCount{t.zone, endpoints})
		return
	}
	if said[at].endpoints += endpoints; said[at].endpoints > 0 {
		return
	}
	if said = slices.Delete(said, at, at+1); len(said) > 0 {
		c.zones[t.node] = said
	} else {
		delete(c.zones, t.node)
	}
}
