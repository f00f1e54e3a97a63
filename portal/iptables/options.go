package iptables

import (
	"context"
	"fmt"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/writer"
)

// DefaultPrefix begins the names of our chains unless Options says otherwise.
const DefaultPrefix = "PORTALD"

// Options of a Writer.
type Options struct {
	writer.Options
	// Prefix begins the name of every chain of ours: capital letters, digits and -, 15 at most. Empty is DefaultPrefix.
	Prefix string
	// Variant is "nft", "legacy", or empty for the one that the distribution calls iptables.
	Variant string
	// Liberal says that conntrack never takes packets of known flows for invalid (nf_conntrack_tcp_be_liberal), so that
	// invalid ones need not be dropped.
	Liberal bool
	// Extra are chains that the Writer of another facility needs.
	Extra []writer.Chain
	// ExtraNames is a regular expression for the names of such chains behind Prefix and a -. Chains that match, and that
	// are not in Extra, are removed as leftovers of an earlier run. Empty matches none.
	ExtraNames string
	// Run runs a command, as platform.Run does, which is the default.
	Run func(ctx context.Context, name string, args []string, stdin []byte) (stdout []byte, err error)
	// RuleCount is called with the number of rules of ours in a table of one family after each Replace and Update. Default
	// none.
	RuleCount func(family inet.Family, table string, rules int)
	// Wrote is called with the number of rules that a Replace or Update gave a table of one family. Default none.
	Wrote func(family inet.Family, table string, rules int)
}

// complete sets defaults, refuses what makes no sense, and returns the names of chains.
func (o *Options) complete() (chains, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Run == nil {
		o.Run = platform.Run
	}
	if o.Wrote == nil {
		o.Wrote = func(inet.Family, string, int) {}
	}
	if o.RuleCount == nil {
		o.RuleCount = func(inet.Family, string, int) {}
	}
	if o.Variant != "" && o.Variant != "nft" && o.Variant != "legacy" {
		return chains{}, fmt.Errorf("iptables variant %q: want nft, legacy or nothing", o.Variant)
	}
	if err := o.Options.Complete(); err != nil {
		return chains{}, err
	}
	return newChains(o.Prefix, o.ExtraNames)
}
