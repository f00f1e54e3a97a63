package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/service"
)

// trace is by what one portald knows its own on a host. One for the Services of a proxy name may stand beside one for all
// others, so that each has names of its own.
type trace struct {
	chains string // how names begin in iptables and IPVS
	table  string // of nftables
	divert platform.Divert
}

// The names of a portald, and those that operators know from kube-proxy: for the one service proxy of a cluster, in modes
// that kube-proxy has.
const (
	ownChains, ownTable   = "PORTALD", "portald"
	kubeChains, kubeTable = "KUBE", "kube-proxy"
)

// traceOf is that of the portald which a configuration makes.
func traceOf(cfg *config.Config) trace {
	t := trace{ownChains, ownTable, platform.DefaultDivert()}
	if alone(cfg) && cfg.Mode == service.ModeKernel {
		t.chains, t.table = kubeChains, kubeTable
	}
	if cfg.ServiceProxyName == "" {
		return t
	}
	sum := sha256.Sum256([]byte(cfg.ServiceProxyName))
	t.chains += fmt.Sprintf("-%X", sum[:3])
	t.table += fmt.Sprintf("-%x", sum[:3])
	slot := 1 + int(binary.BigEndian.Uint16(sum[:]))%slots
	t.divert.Table += slot
	t.divert.Priority += slot * platform.DivertRules
	return t
}

// tracesOf are those that a portald of that proxy name may have had in one mode or another.
func tracesOf(cfg *config.Config) []trace {
	own := traceOf(&config.Config{ServiceProxyName: cfg.ServiceProxyName})
	if cfg.ServiceProxyName != "" {
		return []trace{own}
	}
	return []trace{own, traceOf(&config.Config{Mode: service.ModeKernel})}
}

// alone tells whether there can be no other service proxy for the same Services.
func alone(cfg *config.Config) bool { return cfg.ServiceProxyName == "" && len(cfg.Manifests) == 0 }

// slots is how many places names are spread over, behind that of the portald without one. The last rules are before 512,
// where those of others begin.
const slots = 140
