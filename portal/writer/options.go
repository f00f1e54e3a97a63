package writer

import (
	"fmt"
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// Options are common to all Writers of rules. Only ProxyPorts has no default.
type Options struct {
	// Settings are the first ones.
	Settings
	// ProxyPorts are the ports of the daemon's listeners. No Redirect leads to another port, and no other
	// port is guarded.
	ProxyPorts inet.PortRange
	// ProxyAddresses are addresses of this host, one a family at most, that redirected flows are translated to. A family
	// without one uses the address of the interface that a packet came in by; some networks (Calico, Cilium) give the
	// interfaces of pods none.
	ProxyAddresses []netip.Addr
	// Dials is the mark of the daemon's own packets to endpoints, which no portal translates. 0 is none.
	Dials uint32
	// Masquerade says how flows get this node's address. Its mark, Settings.Mark and Dials have no bit in common.
	Masquerade portal.Masquerade
	// Log is called once for each thing that the host cannot do. Default none.
	Log func(format string, args ...any)
	// Failed is called for each Replace, or Update if partial, that the rules of one family did not take. Default none.
	Failed func(family inet.Family, partial bool)
	// Refused is told of packets that portals refused, and of portals that begin to. Any goroutine may call it. Default
	// none.
	Refused func(portal.Refused)
}

// Complete sets defaults, and refuses what makes no sense.
func (o *Options) Complete() error {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Failed == nil {
		o.Failed = func(inet.Family, bool) {}
	}
	if err := o.Limits().check(); err != nil {
		return err
	}
	for _, family := range inet.Families() {
		if _, err := o.ProxyAddress(family); err != nil {
			return err
		}
	}
	if err := o.Masquerade.Complete(); err != nil {
		return err
	}
	if o.Mark&o.Masquerade.Mark != 0 {
		return fmt.Errorf("mark %#x of replies: the bit %#x is that of what is masqueraded", o.Mark, o.Masquerade.Mark)
	}
	if err := portal.CheckDials(o.Dials, o.Mark|o.Masquerade.Mark); err != nil {
		return err
	}
	return o.LocalDetector.Check()
}

// Limits bound the portals that can be written.
func (o *Options) Limits() Limits { return Limits{o.ProxyPorts} }

// ProxyAddress returns the one of ProxyAddresses that is of a family, the zero Addr if there is none.
func (o *Options) ProxyAddress(family inet.Family) (netip.Addr, error) {
	var found netip.Addr
	for _, addr := range o.ProxyAddresses {
		if inet.FamilyOf(addr) != family {
			continue
		}
		if found.IsValid() || !addr.IsGlobalUnicast() || addr.Is4In6() || addr.Zone() != "" {
			return netip.Addr{}, fmt.Errorf("proxy address %s: want at most one of each family, and unicast", addr)
		}
		found = addr
	}
	return found, nil
}
