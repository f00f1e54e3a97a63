package portal

import (
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/portald/portald/proxy/service"
)

// Settings is what a Writer is told that may change while it is in use.
type Settings struct {
	// Inside says who is a pod.
	Inside Inside
	// NodePortAddresses are the local addresses that node ports are served on; empty means all. Node ports on loopback
	// are never led anywhere: the daemon listens there itself.
	NodePortAddresses []netip.Prefix
	// Mark has these bits set in packets for a socket of this host that is bound to an address of others, so that routing
	// can deliver them here: platform.Divert. 0 is without.
	Mark uint32
}

// NodeAddresses are the NodePortAddresses of a family that rules may lead from, masked and in order.
func (s Settings) NodeAddresses(family service.IPFamily) []netip.Prefix {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	if family == service.IPv6 {
		loopback = netip.MustParsePrefix("::1/128")
	}
	var out []netip.Prefix
	for _, p := range s.NodePortAddresses {
		p = p.Masked()
		inLoopback := p.Overlaps(loopback) && p.Bits() >= loopback.Bits()
		if service.FamilyOf(p.Addr()) == family && !inLoopback {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// Live holds Settings for a Writer, which embeds it. A change takes effect at the next Replace. Safe for concurrent use.
type Live struct{ now atomic.Pointer[Settings] }

// Begin sets what holds at first.
func (l *Live) Begin(s Settings) { l.now.Store(&s) }

// Settings are those of now.
func (l *Live) Settings() Settings { return *l.now.Load() }

// change makes a change.
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

// SetInside changes who is a pod.
func (l *Live) SetInside(in Inside) error {
	if err := in.Check(); err != nil {
		return err
	}
	l.change(func(s *Settings) { s.Inside = in })
	return nil
}

// SetNodePortAddresses changes where node ports are served; false: it is no change.
func (l *Live) SetNodePortAddresses(addrs []netip.Prefix) bool {
	if slices.Equal(l.Settings().NodePortAddresses, addrs) {
		return false
	}
	l.change(func(s *Settings) { s.NodePortAddresses = addrs })
	return true
}

// SetMark changes the mark of replies to clients' addresses.
func (l *Live) SetMark(mark uint32) { l.change(func(s *Settings) { s.Mark = mark }) }
