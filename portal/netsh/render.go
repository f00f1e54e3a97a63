package netsh

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/portald/portald/portal"
)

// Render returns what a Writer with these Options would do on a host that has none of the addresses: a script for
// netsh, and as comments in it what is served there. Of the Options it takes Interface and NodePortAddresses.
func Render(o Options, portals []portal.Portal) ([]byte, error) {
	w, err := newWriter(o)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	fmt.Fprintln(&text, "# Addresses, for netsh -f")
	for _, a := range addressesOf(portals) {
		fmt.Fprintln(&text, strings.Join(addCommand(strconv.Quote(w.Interface), a), " "))
	}
	fmt.Fprintln(&text, "# Sockets: 0.0.0.0 and :: stand for the addresses of the node"+within(o.NodePortAddresses))
	for _, p := range slices.SortedFunc(slices.Values(portals), byFrontend) {
		if err := w.Check(p); err != nil {
			return nil, err
		}
		fmt.Fprintf(&text, "#   %s\t%s: %s\n", p.Frontend, p.Owner.Label(), outcome(p.Target))
	}
	return text.Bytes(), nil
}

func byFrontend(a, b portal.Portal) int { return a.Frontend.Compare(b.Frontend) }

// addressesOf returns the addresses that portals need, in order.
func addressesOf(portals []portal.Portal) (out []netip.Addr) {
	for _, p := range portals {
		if a := p.Frontend.Addr.Addr(); !a.IsUnspecified() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

func within(prefixes []netip.Prefix) string {
	var out []string
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	if len(out) == 0 {
		return ""
	}
	return " in " + strings.Join(out, ", ")
}

// outcome says what happens to clients of a target.
func outcome(t portal.Target) string {
	switch t := t.(type) {
	case portal.Redirect:
		if t.Inside {
			return "listens, for clients inside the cluster"
		}
		return "listens"
	case portal.Drop:
		return "does not listen, since no endpoint is on this node"
	}
	return "does not listen"
}
