package iptables

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"

	"github.com/portald/portald/proxy/service"
)

// What names of an owner's chains begin with, after the prefix.
const (
	toCluster  = "-SVC-" // the endpoints of the cluster
	toNode     = "-SVL-" // those of this node
	fromOthers = "-EXT-" // whoever came by a frontend other than a ClusterIP
	fromRanges = "-FW-"  // whoever came by a LoadBalancerIP that not everyone may use
	toEndpoint = "-SEP-" // one endpoint
)

// hashLength is that of kube-proxy's names, whose hash ours are, so that what operators know to look for is there.
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
