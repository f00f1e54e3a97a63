package iptables

import (
	"context"
	"testing"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
)

func TestSpreading(t *testing.T) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) {
			portaltest.Spreading(t, func(s portaltest.Settings) (portal.Writer, error) {
				o := testOptions(nil, variant)
				o.LocalDetector, o.NodePortAddresses, o.Masquerade, o.Dials = s.LocalDetector, s.NodePortAddresses, s.Masquerade,
					s.Dials
				return New(t.Context(), o)
			}, cannot(variant)...)
		})
	})
}

// cannot are the behaviours that no rules of a variant have.
func cannot(variant string) []portaltest.Behaviour {
	all := []portaltest.Behaviour{portaltest.SourceHash, portaltest.LeastConnections}
	if variant == "legacy" {
		all = append(all, portaltest.RoundRobin, portaltest.RoundRobinBinds, portaltest.AlgorithmChanges)
	}
	return all
}

// Each case, and each way to tell pods, is printed back as written.
func TestKernelPrintsSpreads(t *testing.T) {
	lockFile(t)
	insides := map[string]portal.LocalDetector{
		"nobody":     {},
		"one prefix": {Sources: prefixes("10.244.0.0/16", "fd00:244::/56")},
		"interfaces": {InterfacePrefix: "veth"},
		"both":       {Sources: prefixes("10.244.0.0/16"), Interface: "cni0"},
		"several":    {Sources: prefixes("10.244.0.0/16", "10.9.0.0/16"), Interface: "cni0", InterfacePrefix: "veth"},
	}
	variants(t, func(variant string) {
		for who, inside := range insides {
			t.Run(variant+"/"+who, func(t *testing.T) {
				netnstest.Enter(t)
				o := spreadOptions(nil, variant)
				o.LocalDetector, o.Extra = inside, extras(o.Prefix)
				w := newWriter(t, o)
				for what, portals := range spreadCases() {
					if err := w.Replace(t.Context(), portals); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					if err := w.Audit(t.Context()); err != nil {
						t.Errorf("%s: %v", what, err)
					}
					for _, h := range w.hosts {
						if err := h.auditFew(t.Context()); err != nil {
							t.Errorf("%s, by a glance: %v", what, err)
						}
					}
				}
			})
		}
	})
}

func TestKernelTakeOver(t *testing.T) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) {
			takeOver(t, func() testHost {
				ns := netnstest.New(t)
				return testHost{run: func(ctx context.Context, name string, args []string, stdin []byte) (out []byte, err error) {
					err = ns.Do(func() error {
						out, err = platform.Run(ctx, name, args, stdin)
						return err
					})
					return out, err
				}, variant: variant}
			})
		})
	})
}
