package iptables

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mixed is a host with some commands of both variants; plain is the kind of the commands without one in their names.
type mixed struct {
	plain string
	lacks []string          // commands begin so
	saved map[string]string // by save command
}

func (m mixed) run(_ context.Context, name string, _ []string, _ []byte) ([]byte, error) {
	if slices.ContainsFunc(m.lacks, func(l string) bool { return name == l || strings.HasPrefix(name, l+"-save") }) {
		return nil, fmt.Errorf("%s: %w", name, exec.ErrNotFound)
	}
	if strings.HasSuffix(name, "-save") {
		return []byte(m.saved[name]), nil
	}
	kind := m.plain
	for _, k := range []string{"nft", "legacy"} {
		if strings.HasSuffix(name, "-"+k) {
			kind = k
		}
	}
	return []byte("iptables v1.8.9 (" + map[string]string{"nft": "nf_tables", "legacy": "legacy"}[kind] + ")"), nil
}

func TestChoose(t *testing.T) {
	const (
		hint    = "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n"
		canary  = "*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n"
		nathint = "*nat\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n"
		docker  = "*filter\n:FORWARD DROP [0:0]\n:DOCKER-USER - [0:0]\n-A FORWARD -j DOCKER-USER\nCOMMIT\n"
		one     = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j ACCEPT\n-A INPUT -j ACCEPT\nCOMMIT\n"
		ours    = "*nat\n:PORTALD-GUARD - [0:0]\n:PORTALD-SERVICES - [0:0]\n-A PREROUTING -j PORTALD-SERVICES\n" +
			"-A PORTALD-SERVICES -j ACCEPT\n-A PORTALD-SERVICES -j ACCEPT\n-A PORTALD-SERVICES -j ACCEPT\nCOMMIT\n"
		kubes = "*nat\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n-A KUBE-SERVICES -j ACCEPT\nCOMMIT\n"
	)
	for name, c := range map[string]struct {
		host     mixed
		set      string
		variant  string
		why      string
		warnings []string
	}{
		"empty, nft":    {host: mixed{plain: "nft"}, variant: "nft", why: "calls it iptables"},
		"empty, legacy": {host: mixed{plain: "legacy"}, variant: "legacy", why: "calls it iptables"},
		"hint in legacy": {host: mixed{plain: "nft",
			saved: map[string]string{"iptables-legacy-save": hint}},
			variant: "legacy", why: "KUBE-IPTABLES-HINT"},
		"canary in legacy v6": {host: mixed{plain: "nft",
			saved: map[string]string{"ip6tables-legacy-save": canary}},
			variant: "legacy", why: "CANARY"},
		"no hint but mangle's": {host: mixed{plain: "nft",
			saved: map[string]string{"iptables-legacy-save": nathint}},
			variant: "nft", why: "calls it iptables"},
		"both hints": {host: mixed{plain: "legacy",
			saved: map[string]string{"iptables-legacy-save": hint, "iptables-nft-save": canary}},
			variant: "nft", why: "CANARY", warnings: []string{"iptablesVariant: legacy"}},
		"hint against more rules and ours": {host: mixed{plain: "nft",
			saved: map[string]string{"iptables-nft-save": one + ours, "iptables-legacy-save": hint}},
			variant: "legacy", why: "HINT"},
		"more rules": {host: mixed{plain: "nft",
			saved: map[string]string{"iptables-legacy-save": one, "iptables-nft-save": docker}},
			variant: "legacy", why: "2 rules of others",
			warnings: []string{"iptables-nft: the chain FORWARD has the policy DROP"}},
		"ours do not count": {host: mixed{plain: "nft",
			saved: map[string]string{"iptables-legacy-save": ours, "iptables-nft-save": ours + one}},
			variant: "nft", why: "2 rules of others"},
		"ours stay": {host: mixed{plain: "nft",
			saved: map[string]string{"iptables-legacy-save": ours, "iptables-nft-save": one}},
			variant: "legacy", why: "earlier run"},
		"kube-proxy's do not count": {host: mixed{plain: "nft",
			saved: map[string]string{"iptables-legacy-save": kubes}},
			variant: "nft", why: "calls it iptables",
			warnings: []string{"rules of a service proxy too (chain KUBE-SERVICES)"}},
		"set": {host: mixed{plain: "nft", saved: map[string]string{"iptables-nft-save": hint}}, set: "legacy",
			variant: "legacy", why: "iptablesVariant", warnings: []string{"KUBE-IPTABLES-HINT is in iptables-nft too"}},
		"no legacy": {host: mixed{plain: "nft", lacks: []string{"iptables-legacy"}}, variant: "nft",
			why: "only variant"},
		"plain legacy": {host: mixed{plain: "legacy", lacks: []string{"iptables-legacy", "iptables-nft"}},
			variant: "", why: "only variant"},
		"only nft, by name": {host: mixed{lacks: []string{"iptables-legacy", "iptables", "ip6tables"}}, variant: "nft",
			why: "only variant"},
		"no IPv6": {host: mixed{plain: "nft", lacks: []string{"ip6tables-nft", "ip6tables-legacy", "ip6tables"},
			saved: map[string]string{"iptables-legacy-save": hint}}, variant: "legacy", why: "HINT"},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(c.host.run, c.set)
			got, err := Choose(t.Context(), o)
			if err != nil || got.Variant != c.variant || !strings.Contains(got.Why, c.why) {
				t.Fatalf("%+v, %v, want %q because %q", got, err, c.variant, c.why)
			}
			if len(got.Warnings) != len(c.warnings) {
				t.Fatalf("warns %q, want %q", got.Warnings, c.warnings)
			}
			for i, w := range c.warnings {
				if !strings.Contains(got.Warnings[i], w) {
					t.Errorf("warns %q, want %q", got.Warnings[i], w)
				}
			}
		})
	}
	none := mixed{lacks: []string{"iptables", "iptables-nft", "iptables-legacy"}}
	if _, err := Choose(t.Context(), testOptions(none.run, "")); err == nil {
		t.Error("no error without commands")
	}
}

// Where kubelet's chain, or the setting, tells, not all rules of that variant are saved: they may be of many Services.
func TestChooseSavesNoMoreThanItMust(t *testing.T) {
	for name, c := range map[string]struct {
		set  string
		host mixed
	}{
		"hint": {host: mixed{plain: "nft", saved: map[string]string{
			"iptables-nft-save": "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n"}}},
		"set":      {set: "nft", host: mixed{plain: "nft"}},
		"only one": {host: mixed{plain: "nft", lacks: []string{"iptables-legacy"}}},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(ctx context.Context, name string, args []string, in []byte) ([]byte, error) {
				if strings.HasSuffix(name, "-nft-save") && !slices.Equal(args, []string{"-t", "mangle"}) {
					t.Errorf("saves all rules by %s", name)
				}
				return c.host.run(ctx, name, args, in)
			}
			if got, err := Choose(t.Context(), testOptions(run, c.set)); err != nil || got.Kind != "nft" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
