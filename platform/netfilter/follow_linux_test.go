package netfilter

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
)

// A table whose listing takes too long is asked for chain by chain, without one's own: packets meet the same rules.
func TestReadBesideManyRules(t *testing.T) {
	netnstest.Enter(t)
	for _, line := range []string{
		"-t nat -N OURS", "-t nat -A OURS -d 10.96.0.1/32 -p tcp -j DNAT --to-destination 10.0.0.1", "-t nat -N OTHERS",
		"-t nat -A PREROUTING -m comment --comment -j -j OTHERS", "-t nat -A PREROUTING -j OURS", "-t nat -N DEEPER",
		"-t nat -A OTHERS -g DEEPER", "-t nat -A DEEPER -d 10.96.0.1/32 -p tcp -m tcp --dport 7 -j REDIRECT --to-ports 9",
		"-t filter -P FORWARD DROP",
	} {
		run(t, "iptables-nft", strings.Fields(line)...)
	}
	ours := func(chain string) bool { return chain == "OURS" }
	requested := []string{}
	slow := Reader{SkipChain: ours, Run: func(ctx context.Context, name string, args []string, in []byte) ([]byte, error) {
		if name == "iptables-nft-save" {
			<-ctx.Done()
			return nil, &platform.CommandError{Name: name, Err: ctx.Err()}
		}
		if name == "iptables-nft" {
			requested = append(requested, args[len(args)-1])
		}
		return platform.Run(ctx, name, args, in)
	}}.Read(t.Context())
	if len(slow.Unread) != 0 || slices.Contains(requested, "OURS") || !slices.Contains(requested, "DEEPER") {
		t.Errorf("unread: %v, asked for %v", slow.Unread, requested)
	}
	whole := Reader{}.Read(t.Context())
	own := func(_ *Table, chain string) bool { return ours(chain) }
	for _, p := range []Packet{
		to(Prerouting, inet.TCP, "10.96.0.1:7"), to(Prerouting, inet.TCP, "10.96.0.1:8"),
		to(Forward, inet.TCP, "10.96.0.1:7"),
	} {
		var got, want []string
		for _, h := range slow.Meets(p, own) {
			got = append(got, h.String())
		}
		for _, h := range whole.Meets(p, own) {
			want = append(want, h.String())
		}
		if !slices.Equal(got, want) || (p.Destination.Port() == 7) != (len(got) > 0) {
			t.Errorf("%s %s: meets %q, want %q", p.Hook, p.Destination, got, want)
		}
	}
}
