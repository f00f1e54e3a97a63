package layout

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// role tells what a service port's chain is for.
type role uint8

const (
	entryCluster  role = iota // clients of a ClusterIP, to the cluster's endpoints
	entryNode                 // clients of a ClusterIP, to this node's
	entryExternal             // clients of other frontends, to the cluster's
	entryLocal                // clients of frontends with a Local policy, by where they are
	entryFirewall             // entryExternal, for clients in the source ranges
	entryFirewallLocal
	PickCluster // to the cluster's endpoints
	PickNode    // to this node's
)

var roleNames = [...]string{"clusterip", "clusterip-local", "external", "external-local", "firewall", "firewall-local",
	"service", "local"}

// frontends are the frontends of a service port that share an entry chain.
type frontends struct {
	kind  service.Kind // NodePort, and LoadBalancerIP without source ranges, count as ExternalIP
	scope service.Scope
}

// entryRoles are the frontends of each role of an entry chain.
var entryRoles = [...]frontends{
	entryCluster:       {service.ClusterIP, service.ClusterScope},
	entryNode:          {service.ClusterIP, service.NodeScope},
	entryExternal:      {service.ExternalIP, service.ClusterScope},
	entryLocal:         {service.ExternalIP, service.NodeScope},
	entryFirewall:      {service.LoadBalancerIP, service.ClusterScope},
	entryFirewallLocal: {service.LoadBalancerIP, service.NodeScope},
}

// ChainID identifies a chain of a service port.
type ChainID struct {
	Owner service.PortName
	Role  role
}

func (id ChainID) Name() string { return uniqueName(roleNames[id.Role], id.Owner) }

// ClientsID identifies the set of clients of a service port with affinity, each with the id of its endpoint. A set for
// each endpoint would be too many: the kernel finds a set by comparing all names.
type ClientsID struct{ Owner service.PortName }

func (id ClientsID) Name() string { return uniqueName(affinityPrefix, id.Owner) }

// Clients is the set.
func (r Rules) Clients(owner service.PortName) *nft.Set {
	return &nft.Set{Name: ClientsID{owner}.Name(), Key: nft.Key{r.Family.SAddr(), nft.Numgen(2, 0)}, Dynamic: true}
}

// Prefixes of the names of sets that a table has for some portals only.
const (
	affinityPrefix  = "affinity"
	EndpointsPrefix = "endpoints"
)

// IsOptional tells whether a set may be one of those, or one of an earlier version that nothing needs any more, by its
// name: sets that did not count had other names.
func IsOptional(set string) bool {
	prefixes := []string{affinityPrefix + "-", EndpointsPrefix + "-", "refused-", "dropped-"}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(set, prefix) })
}

// uniqueName is a name with a hash, which makes it unique; the rest is for readers.
func uniqueName(what string, owner service.PortName) string {
	hash := sha256.Sum256([]byte(owner.String()))
	name := what + "-" + base32.StdEncoding.EncodeToString(hash[:])[:16] + "-" + Readable(owner)
	return name[:min(len(name), maxName)]
}

// maxName keeps names within what all versions of nft and the kernel take.
const maxName = 127

// Readable is "namespace/name/protocol/port", in characters that names may have.
func Readable(owner service.PortName) string {
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

// Comment names the owner of a portal, in characters that need no escape in nft.
func Comment(p portal.Portal) string {
	text := strings.Map(func(c rune) rune {
		if c >= ' ' && c <= '~' && c != '"' && c != '\\' {
			return c
		}
		return '_'
	}, p.Owner.Label())
	kind := " " + p.Kind.String()
	return text[:min(len(text), maxComment-len(kind))] + kind
}
