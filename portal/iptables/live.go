package iptables

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
)

// live is what of the Options may change while the Writer is in use. It takes effect at the next Replace.
type live struct {
	inside    portal.Inside
	nodePorts []netip.Prefix
	mark      uint32
}

// change makes a change to what is live.
func (w *Writer) change(edit func(*live)) {
	for {
		was := w.live.Load()
		next := *was
		edit(&next)
		if w.live.CompareAndSwap(was, &next) {
			return
		}
	}
}

// SetInside changes Options.Inside. It takes effect at the next Replace.
func (w *Writer) SetInside(in portal.Inside) error {
	if err := in.Check(); err != nil {
		return err
	}
	w.change(func(l *live) { l.inside = in })
	return nil
}

// SetNodePortAddresses changes Options.NodePortAddresses. It takes effect at the next Replace; false: it is no change.
func (w *Writer) SetNodePortAddresses(addrs []netip.Prefix) bool {
	if slices.Equal(w.live.Load().nodePorts, addrs) {
		return false
	}
	w.change(func(l *live) { l.nodePorts = addrs })
	return true
}

// SetMark changes Options.Mark. It takes effect at the next Replace.
func (w *Writer) SetMark(mark uint32) { w.change(func(l *live) { l.mark = mark }) }

// adopt has what is live take effect in all tables.
func (h *host) adopt(l live) {
	for _, t := range []*table{h.nat, h.filter, h.mangle} {
		t.allNodeAddresses = len(l.nodePorts) == 0
		t.nodeAddresses = nodeAddresses(h.family, l.nodePorts)
		t.mark = l.mark
		t.pods = h.pods(l.inside)
	}
}
