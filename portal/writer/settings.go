package writer

import (
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// Settings are options that may change while a Writer is in use. A change takes effect at the next Replace.
type Settings struct {
	// LocalDetector tells pods from other clients.
	LocalDetector portal.LocalDetector
	// NodePortAddresses are the local addresses that NodePorts are served on; empty means all. Rules never serve NodePorts
	// on loopback addresses: the daemon listens there itself.
	NodePortAddresses []netip.Prefix
	// Mark has these bits set in packets for a socket of this host that is bound to an address of another host, so that
	// routing can deliver them here: platform.Divert. 0 is without.
	Mark uint32
}

// NodeAddresses are the NodePortAddresses of a family but loopback, masked and in order.
func (s Settings) NodeAddresses(family inet.Family) []netip.Prefix {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	if family == inet.IPv6 {
		loopback = netip.MustParsePrefix("::1/128")
	}
	var out []netip.Prefix
	for _, p := range s.NodePortAddresses {
		p = p.Masked()
		inLoopback := p.Overlaps(loopback) && p.Bits() >= loopback.Bits()
		if inet.FamilyOf(p.Addr()) == family && !inLoopback {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// Live holds the newest Settings. It is safe for concurrent use.
type Live struct{ now atomic.Pointer[Settings] }

// NewLive returns a Live with first settings.
func NewLive(s Settings) *Live {
	l := &Live{}
	l.now.Store(&s)
	return l
}

// Settings returns the newest.
func (l *Live) Settings() Settings { return *l.now.Load() }

func (l *Live) change(edit func(*Settings)) {
	for {
		was := l.now.Load()
		next := *was
		edit(&next)
		if l.now.CompareAndSwap(was, &next) {
			return
		}
	}
}

// SetLocalDetector changes Settings.LocalDetector.
func (l *Live) SetLocalDetector(in portal.LocalDetector) error {
	if err := in.Check(); err != nil {
		return err
	}
	l.change(func(s *Settings) { s.LocalDetector = in })
	return nil
}

// SetNodePortAddresses changes Settings.NodePortAddresses; false: they were the same.
func (l *Live) SetNodePortAddresses(addrs []netip.Prefix) bool {
	if slices.Equal(l.Settings().NodePortAddresses, addrs) {
		return false
	}
	l.change(func(s *Settings) { s.NodePortAddresses = addrs })
	return true
}

// SetMark changes Settings.Mark.
func (l *Live) SetMark(mark uint32) { l.change(func(s *Settings) { s.Mark = mark }) }
