package ipvs

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
)

// live is what of the Options may change while the Writer is in use. It takes effect at the next Replace.
type live struct {
	inside    portal.Inside
	nodePorts []netip.Prefix
}

func (w *Writer) alter(edit func(*live)) {
	for {
		was := w.live.Load()
		next := *was
		edit(&next)
		if w.live.CompareAndSwap(was, &next) {
			return
		}
	}
}

// SetInside changes Options.Inside, also of the Rules. It takes effect at the next Replace. Interfaces cannot change:
// they are in Chains.
func (w *Writer) SetInside(in portal.Inside) error {
	if in.Interface != w.Inside.Interface || in.InterfacePrefix != w.Inside.InterfacePrefix {
		return errors.New("the interfaces of pods are in fixed rules while IPVS is in use: they change with the next start")
	}
	if err := w.Rules.SetInside(in); err != nil {
		return err
	}
	w.alter(func(l *live) { l.inside = in })
	return nil
}

// SetNodePortAddresses changes Options.NodePortAddresses, also of the Rules. It takes effect at the next Replace; false:
// it is no change.
func (w *Writer) SetNodePortAddresses(addrs []netip.Prefix) bool {
	changed := w.Rules.SetNodePortAddresses(addrs)
	if slices.Equal(w.live.Load().nodePorts, addrs) {
		return changed
	}
	w.alter(func(l *live) { l.nodePorts = addrs })
	return true
}

// SetMark changes the mark of replies to clients' addresses, which is the Rules' alone.
func (w *Writer) SetMark(mark uint32) { w.Rules.SetMark(mark) }

// Diverts tells whether replies to the addresses of clients that the daemon dials from are marked in that family.
func (w *Writer) Diverts(ipv6 bool) bool { return w.Rules.Diverts(ipv6) }

// IPv6 tells whether this host can hold portals of IPv6; those of IPv4 it always can.
func (w *Writer) IPv6() bool { return w.v6 }
