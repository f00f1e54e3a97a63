package netsh

import (
	"context"
	"fmt"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// Show implements portal.Writer: the addresses that portals redirect from, as the host has them. The host does not tell
// who listens there.
func (w *Writer) Show(_ context.Context, portals []portal.Portal) (shown portal.Shown, err error) {
	all, err := w.Interfaces()
	if err != nil {
		return shown, fmt.Errorf("read the host's addresses: %w", err)
	}
	current, err := newHost(all, w.Interface)
	if err != nil {
		return shown, err
	}
	for _, p := range portals {
		addr := p.Frontend.Addr.Addr()
		if _, redirects := p.Target.(portal.Redirect); !redirects || addr.IsUnspecified() {
			continue
		}
		is, there := current.addrs[addr]
		if !there {
			shown.Missing = append(shown.Missing, fmt.Sprintf("address %s of interface %q", addr, current.device.Name))
			continue
		}
		command := "netsh interface ipv4 show addresses"
		if inet.FamilyOf(addr) == inet.IPv6 {
			command = "netsh interface ipv6 show addresses"
		}
		shown.Add(command, addr.String()+": "+is.state.String())
		if is.state != Usable {
			shown.Missing = append(shown.Missing, fmt.Sprintf("address %s is %s: nothing can listen there", addr, is.state))
		}
	}
	return shown, nil
}

// String is the word of Windows for a state.
func (s AddressState) String() string {
	switch s {
	case Tentative:
		return "tentative"
	case Duplicate:
		return "duplicate"
	}
	return "preferred"
}
