package nftables

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// role is what a service port's chain does.
type role uint8

const (
	entryCluster  role = iota // clients of a ClusterIP, to the cluster's endpoints
	entryNode                 // clients of a ClusterIP, to this node's
	entryExternal             // clients of other frontends, to the cluster's
	entryLocal                // those with a Local policy: to this node's, or inside the cluster to the cluster's
	entryFirewall             // entryExternal for those whom the pool admits
	entryFirewallLocal
	pickCluster // to the cluster's endpoints
	pickNode    // to this node's
)

var roleNames = [...]string{"clusterip", "clusterip-local", "external", "external-local", "firewall", "firewall-local",
	"service", "local"}

// frontends are those of a service port that have an entry in common.
type frontends struct {
	kind  service.Kind // NodePorts, and LoadBalancerIPs that everyone may use, are as ExternalIPs
	scope service.Scope
}

// entryRoles are the roles of entries, by the frontends that lead there.
var entryRoles = [...]frontends{
	entryCluster:       {service.ClusterIP, service.ClusterScope},
	entryNode:          {service.ClusterIP, service.NodeScope},
	entryExternal:      {service.ExternalIP, service.ClusterScope},
	entryLocal:         {service.ExternalIP, service.NodeScope},
	entryFirewall:      {service.LoadBalancerIP, service.ClusterScope},
	entryFirewallLocal: {service.LoadBalancerIP, service.NodeScope},
}

// chainID says whose chain it is, and which.
type chainID struct {
	owner service.PortName
	role  role
}

// clientsID says whose clients a set has: those of a service port with affinity, each with the number of the endpoint that
// it has. A set for each endpoint would be more of them than the kernel finds in good time: it looks through all by name.
type clientsID struct{ owner service.PortName }

func (id chainID) name() string { return unique(roleNames[id.role], id.owner) }

// set is that of the clients.
func (id clientsID) set() *set {
	return &set{name: unique(affinity, id.owner), key: key{bySource, bySlot}, slots: 2, dynamic: true}
}

// number tells an endpoint from the others of its service port, whichever these are.
func number(endpoint netip.AddrPort) uint32 {
	hash := sha256.Sum256([]byte(endpoint.String()))
	return binary.BigEndian.Uint32(hash[:]) >> 1 // the kernel adds one
}

// affinity and endpointsOf begin the names of sets that come and go.
const (
	affinity    = "affinity"
	endpointsOf = "endpoints"
)

// passing tells whether a set of this name may be one of those.
func passing(name string) bool {
	return strings.HasPrefix(name, affinity+"-") || strings.HasPrefix(name, endpointsOf+"-")
}

// unique is a name that has a hash to be so; the rest is for readers.
func unique(what string, owner service.PortName) string {
	hash := sha256.Sum256([]byte(owner.String()))
	name := what + "-" + base32.StdEncoding.EncodeToString(hash[:])[:16] + "-" + readable(owner)
	return name[:min(len(name), maxName)]
}

// maxName keeps names within what all versions of nft and the kernel take.
const maxName = 127

// readable is "namespace/name/protocol/port", in characters that names may have.
func readable(owner service.PortName) string {
	text := owner.Namespace + "/" + owner.Name + "/" + owner.Protocol.String()
	if owner.Port != "" {
		text += "/" + owner.Port
	}
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/-_.", c) {
			return c
		}
		return '_'
	}, text)
}

// maxComment is the longest that nft takes, in bytes.
const maxComment = 127

// comment says whose portal an element is, in characters that need no escape.
func comment(p portal.Portal) string {
	text := strings.Map(func(c rune) rune {
		if c >= ' ' && c <= '~' && c != '"' && c != '\\' {
			return c
		}
		return '_'
	}, p.Owner.Label())
	kind := " " + p.Kind.String()
	return text[:min(len(text), maxComment-len(kind))] + kind
}
