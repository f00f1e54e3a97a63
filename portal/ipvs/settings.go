package ipvs

import (
	"errors"
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// SetLocalDetector changes Options.LocalDetector, also of the Rules, from the next Replace on. Interfaces cannot
// change: they are in Chains.
func (w *Writer) SetLocalDetector(in portal.LocalDetector) error {
	if in.Interface != w.LocalDetector.Interface || in.InterfacePrefix != w.LocalDetector.InterfacePrefix {
		return errors.New("the interfaces of pods are in fixed rules while IPVS is in use: they change with the next start")
	}
	if err := w.Rules.SetLocalDetector(in); err != nil {
		return err
	}
	return w.live.SetLocalDetector(in)
}

// SetNodePortAddresses changes Options.NodePortAddresses, also of the Rules, from the next Replace on; false: they
// were the same.
func (w *Writer) SetNodePortAddresses(addrs []netip.Prefix) bool {
	changed := w.Rules.SetNodePortAddresses(addrs)
	return w.live.SetNodePortAddresses(addrs) || changed
}

// SetMark changes the mark of replies to clients' addresses, which the Rules set.
func (w *Writer) SetMark(mark uint32) { w.Rules.SetMark(mark) }

// Diverts tells whether replies to the addresses of clients that the daemon dials from are marked in that family.
func (w *Writer) Diverts(family inet.Family) bool { return w.Rules.Diverts(family) }
