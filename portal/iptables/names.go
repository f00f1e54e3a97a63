package iptables

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"

	"github.com/portald/portald/portal/service"
)

// The kinds of an owner's chains, which their names have behind the prefix.
const (
	toCluster  = "-SVC-" // the endpoints of the cluster
	toNode     = "-SVL-" // endpoints of this node
	fromOthers = "-EXT-" // flows to frontends other than ClusterIPs
	fromRanges = "-FW-"  // flows to LoadBalancerIPs with source ranges
	toEndpoint = "-SEP-" // one endpoint
)

// hashLength is the length of the hash in kube-proxy's names. Ours are the same, so that operators find the chains they
// know.
const hashLength = 16

// owned is the name of a chain of a service port, or of one of its endpoints.
func (c chains) owned(kind string, owner service.PortName, endpoint string) string {
	sum := sha256.Sum256([]byte(owner.Label() + owner.Protocol.String() + endpoint))
	name := c.prefix + kind
	return name + base32.StdEncoding.EncodeToString(sum[:])[:min(hashLength, maxName-len(name))]
}

func (c chains) endpoint(owner service.PortName, at netip.AddrPort) string {
	return c.owned(toEndpoint, owner, at.String())
}
