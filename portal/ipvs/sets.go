package ipvs

import (
	"cmp"
	"net/netip"
	"strings"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// setID is an ipset. Each family has its own.
type setID int

// The sets. Those of frontends hold address, protocol and port, unless said otherwise.
const (
	clusterIPs    setID = iota // masqueraded for clients that are not pods
	externalIPs                // masqueraded for everyone, as are the next two
	loadBalancers              //
	nodePorts                  // at each address of the node
	restricted                 // load balancers with source ranges
	sources                    // and a range
	sourceHosts                // and an address: the frontend's own, from which this node's clients dial
	insideOnly                 // virtual servers that drop flows of clients outside
	hairpins                   // an endpoint that may dial itself by its Service
	pods                       // the addresses that pods have
	addresses                  // of the device
	served                     // all virtual servers
	setIDs
	recent // addresses that the device has had for recentTime at most: the kernel empties it
)

// setKind has the attributes of a set that are the same in both families.
type setKind struct {
	name  string // behind the prefix KUBE, which most share with kube-proxy
	short string // behind another prefix: a set's name has 31 characters at most
	typ   string
}

// Types of sets, as the kernel names them.
const (
	byAddress   = "hash:ip"
	byNet       = "hash:net"
	byFrontend  = "hash:ip,port"
	byClient    = "hash:ip,port,ip"
	byClientNet = "hash:ip,port,net"
)

var setKinds = [...]setKind{
	clusterIPs:    {"CLUSTER-IP", "CLUSTER-IP", byFrontend},
	externalIPs:   {"EXTERNAL-IP", "EXT-IP", byFrontend},
	loadBalancers: {"LOAD-BALANCER", "LB", byFrontend},
	nodePorts:     {"NODE-PORT", "NP", byFrontend},
	restricted:    {"LOAD-BALANCER-FW", "LB-FW", byFrontend},
	sources:       {"LOAD-BALANCER-SOURCE-CIDR", "LB-SOURCE-CIDR", byClientNet},
	sourceHosts:   {"LOAD-BALANCER-SOURCE-IP", "LB-SOURCE-IP", byClient},
	insideOnly:    {"INSIDE-ONLY", "INSIDE-ONLY", byFrontend},
	hairpins:      {"LOOP-BACK", "LOOP-BACK", byClient},
	pods:          {"PODS", "PODS", byNet},
	addresses:     {"IPVS-IPS", "IPVS-IPS", byAddress},
	served:        {"IPVS-SERVERS", "IPVS-SERVERS", byFrontend},
	recent:        {"IPVS-RECENT", "IPVS-RECENT", byAddress},
}

// names are the names of the device and the sets.
type names struct {
	prefix string
	device string
}

func newNames(prefix string) names {
	const longest = 15
	device := strings.ToLower(prefix) + "-ipvs0"
	if len(device) > longest {
		device = strings.ToLower(prefix)
	}
	if prefix == SolePrefix {
		device = "kube-ipvs0"
	}
	return names{prefix, device}
}

// Device is the name of the interface that a Writer with this prefix gives addresses of portals.
func Device(prefix string) string { return newNames(prefix).device }

// maxSetName is the kernel's limit, in bytes.
const maxSetName = 31

// set is the name of a set; kube-proxy cuts names too.
func (n names) set(id setID, family inet.Family) string {
	name := n.prefix + "-"
	if family == inet.IPv6 {
		name += "6-"
	}
	if n.prefix == SolePrefix {
		name += setKinds[id].name
	} else {
		name += setKinds[id].short
	}
	return n.cut(name)
}

// set is one with its name.
type set struct {
	name    string
	typ     string
	id      setID
	family  inet.Family
	timeout time.Duration // of its elements; 0: they stay
}

// sets are the sets of both families whose elements are known, in order.
func (n names) sets() (out []set) {
	for _, family := range inet.Families() {
		for id := range setIDs {
			out = append(out, set{name: n.set(id, family), typ: setKinds[id].typ, id: id, family: family})
		}
	}
	return out
}

// recentTime is enough to delete the conntrack entries of flows to an address that began before IPVS had it. A client
// that has no answer tries again after 1, 3 and 7 s.
const recentTime = 5 * time.Second

// allSets are the sets of both families: those of sets, and those that the kernel empties.
func (n names) allSets() []set {
	out := n.sets()
	for _, family := range inet.Families() {
		out = append(out, set{n.set(recent, family), setKinds[recent].typ, recent, family, recentTime})
	}
	return out
}

// maxElements is how many elements a set takes. Their memory is allocated as they are added.
const maxElements = 1 << 20

// leftovers are sets that a kube-proxy may have left and that are not among ours.
var leftovers = []string{
	"NODE-PORT-TCP", "NODE-PORT-UDP", "EXTERNAL-IP-LOCAL", "LOAD-BALANCER-LOCAL", "NODE-PORT-LOCAL-TCP",
	"NODE-PORT-LOCAL-UDP", "NODE-PORT-SCTP-HASH", "NODE-PORT-LOCAL-SCTP-HASH", "HEALTH-CHECK-NODE-PORT",
}

// all are the names of our sets, and with the name of the only proxy also the names of kube-proxy's sets.
func (n names) all() (out []string) {
	for _, s := range n.allSets() {
		out = append(out, s.name)
	}
	if n.prefix == SolePrefix {
		for _, name := range leftovers {
			out = append(out, n.cut(n.prefix+"-"+name), n.cut(n.prefix+"-6-"+name))
		}
	}
	return out
}

func (n names) cut(name string) string { return name[:min(len(name), maxSetName)] }

// entry is an element of a set.
type entry struct {
	id     setID
	family inet.Family
	element
}

// element is an element of a set. Which fields are in use depends on the type of the set.
type element struct {
	addr     netip.Addr
	protocol inet.Protocol
	port     uint16
	client   netip.Prefix // or a single address; in a set of nets its only part
}

func (e element) compare(o element) int {
	return cmp.Or(e.addr.Compare(o.addr), cmp.Compare(e.protocol, o.protocol), cmp.Compare(e.port, o.port),
		e.client.Compare(o.client))
}

func (e entry) compare(o entry) int {
	return cmp.Or(cmp.Compare(e.family, o.family), cmp.Compare(e.id, o.id), e.element.compare(o.element))
}

// atFrontend is a frontend's entry in a set of addresses and ports.
func atFrontend(id setID, f service.Frontend) entry {
	addr := f.Addr.Addr()
	return entry{id, inet.FamilyOf(addr), element{addr: addr, protocol: f.Protocol, port: f.Addr.Port()}}
}

// of returns the entry with a client as its third part.
func (e entry) of(client netip.Prefix) entry {
	e.client = client
	return e
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
