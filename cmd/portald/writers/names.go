package writers

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/ipvs"
	"github.com/portald/portald/portal/service"
)

// Names are the names that one portald owns on a host. A portald for the Services of a proxy name may run beside one
// for all other Services, so each has names of its own.
type Names struct {
	Chains string // prefix of chains in iptables, and of sets and the device of IPVS
	Table  string // of nftables
	Divert platform.Divert
}

// The names of a portald, and those that operators know from kube-proxy. The latter are for the only service proxy of a
// cluster, in modes that kube-proxy has.
const (
	ownChains, ownTable   = "PORTALD", "portald"
	kubeChains, kubeTable = "KUBE", "kube-proxy"
)

// NamesOf returns the names owned by the portald that a configuration describes.
func NamesOf(cfg *config.Config) Names {
	n := Names{ownChains, ownTable, platform.DefaultDivert()}
	if alone(cfg) && cfg.Mode == service.ModeKernel {
		n.Chains, n.Table = kubeChains, kubeTable
	}
	if cfg.ServiceProxyName == "" {
		return n
	}
	sum := sha256.Sum256([]byte(cfg.ServiceProxyName))
	n.Chains += fmt.Sprintf("-%X", sum[:3])
	n.Table += fmt.Sprintf("-%x", sum[:3])
	slot := 1 + int(binary.BigEndian.Uint16(sum[:]))%divertSlots
	n.Divert.Table += slot
	n.Divert.Priority += slot * platform.DivertRules
	return n
}

// Device is the interface that has addresses of Services, with the writer ipvs.
func (n Names) Device() string { return ipvs.Device(n.Chains) }

// everyNames are the names that a portald of the same proxy name may have owned, in whatever mode.
func everyNames(cfg *config.Config) []Names {
	own := NamesOf(&config.Config{ServiceProxyName: cfg.ServiceProxyName})
	if cfg.ServiceProxyName != "" {
		return []Names{own}
	}
	return []Names{own, NamesOf(&config.Config{Mode: service.ModeKernel})}
}

// alone tells whether no other service proxy can serve the same Services.
func alone(cfg *config.Config) bool { return cfg.ServiceProxyName == "" && len(cfg.Manifests) == 0 }

// divertSlots is the number of routing tables and rule priorities that proxy names are hashed to. They follow the
// tables and priorities of the portald without a proxy name; the last priority is below 512, where other programs'
// rules begin.
const divertSlots = 140
