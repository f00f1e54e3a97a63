package iptables

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
)

// Choice is the variant of iptables that Writers of a host shall use, for both families.
type Choice struct {
	Variant string // for Options.Variant; empty: the commands without a variant in their names
	Kind    string // of Variant: nft or legacy
	Why     string

	// Warnings tell what in the other variant decides about packets too.
	Warnings []string
}

// Choose finds the variant of iptables that the host uses, or returns the one that o.Variant names. The order is:
// where kubelet has its chains, where a Writer of an earlier run left rules, where others have more rules, and the
// one that the host calls iptables. So it comes out the same at each start until kubelet or the host's owner changes
// variants: rules of service proxies, our own above all, never count. It runs save commands, which create no tables;
// all rules of the chosen variant, which after a restart are those of all Services, are saved only if nothing else
// tells. It is an error if the host has no commands of iptables, or not those of o.Variant.
func Choose(ctx context.Context, o Options) (Choice, error) {
	if o.Run == nil {
		o.Run = platform.Run
	}
	all, err := installedVariants(ctx, o)
	if err != nil {
		return Choice{}, err
	}
	chosen, why := settled(ctx, o, all)
	if chosen == nil && o.Variant != "" {
		return Choice{}, fmt.Errorf("no commands of iptables-%s", o.Variant)
	}
	for _, v := range all {
		if v != chosen {
			v.inspect(ctx, o)
		}
	}
	if chosen == nil {
		chosen, why = choose(all)
	}
	out := Choice{Variant: chosen.variant, Kind: chosen.kind, Why: why}
	for _, v := range all {
		if v != chosen {
			out.Warnings = append(out.Warnings, v.warnings(chosen)...)
		}
	}
	return out, nil
}

// candidate is a variant that the host has commands of, with its rules in both families.
type candidate struct {
	variant, kind string
	plain         bool // it is what the host calls iptables

	kubelet string   // a chain that kubelet makes where it finds or writes rules
	written bool     // a Writer left rules
	proxy   string   // a chain of a service proxy, if no Writer left rules
	rules   int      // of others
	drops   []string // policies of others that drop forwarded packets
	unread  error
}

// installedVariants returns the variants that the host has, each once. One with only the plain names has an empty
// variant.
func installedVariants(ctx context.Context, o Options) (out []*candidate, err error) {
	for _, variant := range []string{"nft", "legacy", ""} {
		o.Variant = variant
		kind, failed := VariantOf(ctx, o)
		if failed != nil {
			err = failed
			continue
		}
		known := find(out, func(v *candidate) bool { return v.kind == kind })
		if known == nil {
			known = &candidate{variant: variant, kind: kind}
			out = append(out, known)
		}
		known.plain = variant == ""
	}
	if len(out) == 0 {
		return nil, err
	}
	return out, nil
}

func find(all []*candidate, is func(*candidate) bool) *candidate {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return nil
}

// settled returns the variant if it can be told without all of its rules, nil otherwise, and why.
func settled(ctx context.Context, o Options, all []*candidate) (*candidate, string) {
	switch {
	case o.Variant != "":
		return find(all, func(v *candidate) bool { return v.kind == o.Variant }), "as iptablesVariant says"
	case len(all) == 1:
		return all[0], "the only variant that this host has"
	}
	v := find(all, func(v *candidate) bool { return v.kind == "nft" })
	if v.inspect(ctx, o, "-t", mangleTable); v.kubelet != "" {
		return v, kubeletsChain(v)
	}
	return nil, ""
}

func kubeletsChain(v *candidate) string { return fmt.Sprintf("kubelet's chain %s is there", v.kubelet) }

// choose returns one of two variants and why, by what they hold.
func choose(all []*candidate) (*candidate, string) {
	if v := find(all, func(v *candidate) bool { return v.kubelet != "" }); v != nil { // nft comes first
		return v, kubeletsChain(v)
	}
	a, b := all[0], all[1]
	switch {
	case a.written != b.written && a.written:
		return a, "an earlier run of portald chose it"
	case a.written != b.written:
		return b, "an earlier run of portald chose it"
	case a.rules > b.rules:
		return a, fmt.Sprintf("it has %d rules of others, iptables-%s has %d", a.rules, b.kind, b.rules)
	case b.rules > a.rules:
		return b, fmt.Sprintf("it has %d rules of others, iptables-%s has %d", b.rules, a.kind, a.rules)
	}
	if b.plain {
		a = b
	}
	return a, "the host calls it iptables, and nothing else tells"
}

// inspect looks what the variant holds, or a part of it by arguments of the save command. A family that cannot be read,
// as IPv6 on a host without it, holds nothing.
func (v *candidate) inspect(ctx context.Context, o Options, args ...string) {
	*v = candidate{variant: v.variant, kind: v.kind, plain: v.plain}
	o.Variant = v.variant
	for _, f := range []family{ipv4(), ipv6()} {
		text, err := o.Run(ctx, f.commandName(v.variant, "save"), args, nil)
		if err != nil {
			if f.ip == inet.IPv4 {
				v.unread = err
			}
			continue
		}
		v.read(f, text)
	}
}

var (
	kubeletForm = regexp.MustCompile(`^KUBE-(IPTABLES-HINT|KUBELET-CANARY)$`)
	writtenForm = regexp.MustCompile(`^(KUBE|PORTALD)(-[0-9A-F]{6})?-GUARD$`)
	proxyForm   = regexp.MustCompile(`^KUBE-(SERVICES|NODEPORTS|(SVC|SEP)-.*)$`)
)

// read takes in the output of a save command.
func (v *candidate) read(f family, text []byte) {
	table := ""
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		switch {
		case len(words) == 0:
		case words[0][0] == '*':
			table = words[0][1:]
		case words[0][0] == ':' && len(words) > 1:
			v.readChain(f, table, words[0][1:], words[1])
		case words[0] == "-A" && len(words) > 1 && !slices.ContainsFunc(words[1:], ofServiceProxy):
			v.rules++
		}
	}
}

func (v *candidate) readChain(f family, table, name, policy string) {
	switch {
	case table == mangleTable && kubeletForm.MatchString(name):
		v.kubelet = name
	case writtenForm.MatchString(name):
		v.written = true
	case v.proxy == "" && proxyForm.MatchString(name):
		v.proxy = name
	case table == filterTable && name == "FORWARD" && policy == "DROP":
		v.drops = append(v.drops, fmt.Sprintf("%s-%s", f.command, v.kind))
	}
}

// ofServiceProxy tells whether a word of a rule is the name of a chain that service proxies or kubelet make.
func ofServiceProxy(word string) bool {
	return strings.HasPrefix(word, "KUBE-") || strings.HasPrefix(word, DefaultPrefix+"-")
}

// warnings tell what of the variant matters although another one was chosen.
func (v *candidate) warnings(chosen *candidate) (out []string) {
	name := "iptables-" + v.kind
	if v.unread != nil {
		out = append(out, fmt.Sprintf("the rules of %s cannot be read, and may decide about packets too (legacy tables take "+
			"the capability NET_RAW): %v", name, v.unread))
	}
	if v.kubelet != "" {
		out = append(out, fmt.Sprintf("kubelet's chain %s is in %s too: if this host uses that one, set iptablesVariant: %s",
			v.kubelet, name, v.kind))
	}
	if v.proxy != "" && !v.written {
		out = append(out, fmt.Sprintf("%s has rules of a service proxy too (chain %s): packets pass the rules of both. If "+
			"kube-proxy left them, remove them with kube-proxy --cleanup", name, v.proxy))
	}
	for _, command := range v.drops {
		out = append(out, fmt.Sprintf("%s: the chain FORWARD has the policy DROP, which holds whatever iptables-%s "+
			"accepts: accept what goes to pods there", command, chosen.kind))
	}
	return out
}
