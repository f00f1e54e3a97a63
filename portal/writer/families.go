package writer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// Family holds the portals of one address family. Portals, changes and proxy ports of the other are passed over.
type Family struct {
	IP      inet.Family
	Guard   func(map[portal.ProxyPort]bool)
	Replace func(context.Context, Settings, []portal.Portal) error
	Adopt   func(context.Context, Settings, []portal.Portal) error // writes nothing; after an error comes Forget
	Forget  func()                                                 // as if nothing had been written
	Update  func(context.Context, []portal.Change) error
	Audit   func(context.Context) error
	Remove  func(context.Context) error
	Diverts func() bool // safe for concurrent use
}

// Watch tells whether the host changed otherwise than by the Writer, so that an audit need not look.
type Watch interface {
	// Watch begins again: a Replace or Adopt comes next.
	Watch() error
	// Unchanged tells whether nothing else changed the host since Watch or Verified, and the id of its state.
	Unchanged() (id uint32, same bool, err error)
	// Verified takes in that a state was as written.
	Verified(id uint32)
	// Disturbed tells whether there is a sign that something else changed the host, of which no proof is needed.
	Disturbed() bool
}

// unwatched is a host that may have changed at any time, without a sign.
type unwatched struct{}

func (unwatched) Watch() error                     { return nil }
func (unwatched) Unchanged() (uint32, bool, error) { return 0, false, nil }
func (unwatched) Verified(uint32)                  {}
func (unwatched) Disturbed() bool                  { return false }

// Families is a Writer of rules that holds the portals of each address family by themselves.
type Families struct {
	portal.Unsupported
	limits  Limits
	live    *Live
	failed  func(inet.Family, bool)
	watch   Watch
	witness *Witness
	served  []Family
	state   State
}

// ErrBusy means that it is not known what a host can do, since it does not answer.
var ErrBusy = errors.New("the host is busy")

// Open returns Families of what open returns for each family; o is complete. It is an error if IPv4 cannot be served. A
// host without IPv6 is served without it, which is logged, but not one of which that is not known (ErrBusy).
func Open(o Options, open func(inet.Family) (Family, error)) (*Families, error) {
	out := &Families{limits: o.Limits(), live: NewLive(o.Settings), failed: o.Failed, watch: unwatched{}}
	for _, ip := range inet.Families() {
		f, err := open(ip)
		switch {
		case err == nil:
			out.served = append(out.served, f)
		case ip == inet.IPv6 && !errors.Is(err, ErrBusy):
			o.Log("no portals for IPv6 on this host: %v", err)
		default:
			return nil, err
		}
	}
	return out, nil
}

// Observe sets how the host is watched, before the first Replace or Adopt; without, each Audit looks at everything. A
// nil Witness sees nobody.
func (w *Families) Observe(watch Watch, witness *Witness) { w.watch, w.witness = watch, witness }

// Features say what every Writer on Families can do.
func (w *Families) Features() portal.Features {
	return portal.Features{IPv6: len(w.served) > 1, Adopts: true}
}

// Watch implements portal.Writer.
func (w *Families) Watch(d time.Duration) { w.witness.Watch(d) }

// Listen implements portal.Writer.
func (w *Families) Listen(ctx context.Context) error { return w.witness.Listen(ctx) }

// Culprits implements portal.Writer.
func (w *Families) Culprits() []portal.Culprit { return w.witness.Culprits() }

// Check returns an error for a portal that no rule can express.
func (w *Families) Check(p portal.Portal) error { return w.limits.Check(p) }

// Guard says which proxy ports were opened and closed.
func (w *Families) Guard(changes map[portal.ProxyPort]bool) {
	for _, f := range w.served {
		f.Guard(changes)
	}
}

// Replace makes both families hold exactly these portals. Portals that no rule can express are left out and named in
// the error; the rest is served.
func (w *Families) Replace(ctx context.Context, portals []portal.Portal) error {
	return w.state.Full(func() error {
		valid, invalid := Valid(portals, w.Check)
		settings, unwatched := w.live.Settings(), w.watch.Watch()
		err := w.write("replace", false, func(f Family) error { return f.Replace(ctx, settings, valid) })
		return errors.Join(invalid, unwatched, err)
	})
}

// Adopt takes over the rules of an earlier run, if both families hold exactly these portals.
func (w *Families) Adopt(ctx context.Context, portals []portal.Portal) error {
	return w.state.Full(func() error {
		valid, err := Valid(portals, w.Check)
		settings := w.live.Settings()
		if err == nil {
			err = w.watch.Watch()
		}
		if err == nil {
			err = w.each("adopt", func(f Family) error { return f.Adopt(ctx, settings, valid) })
		}
		if err != nil {
			for _, f := range w.served {
				f.Forget()
			}
		}
		return err
	})
}

// Update applies changes.
func (w *Families) Update(ctx context.Context, changes []portal.Change) error {
	return w.state.Incremental("update", func() error {
		valid, invalid := ValidChanges(changes, w.Check)
		return errors.Join(invalid, w.write("update", true, func(f Family) error { return f.Update(ctx, valid) }))
	})
}

func (w *Families) write(verb string, partial bool, write func(Family) error) error {
	return w.witness.withoutListening(func() error {
		return w.each(verb, func(f Family) error {
			err := write(f)
			if err != nil {
				w.failed(f.IP, partial)
			}
			return err
		})
	})
}

// Audit compares what both families hold with what was written, unless nothing but the Writer changed the host.
func (w *Families) Audit(ctx context.Context) error {
	return w.state.Verify(func() error {
		id, same, err := w.watch.Unchanged()
		if same || err != nil {
			return err
		}
		if err := w.each("audit", func(f Family) error { return f.Audit(ctx) }); err != nil {
			return err
		}
		w.watch.Verified(id)
		return nil
	})
}

// Disturbed tells whether something else may have changed the host since the last write or Audit.
func (w *Families) Disturbed() bool { return w.state.known && w.watch.Disturbed() }

// Cleanup removes everything of ours.
func (w *Families) Cleanup(ctx context.Context) error {
	w.state.Forget()
	return w.witness.withoutListening(func() error {
		return w.each("remove", func(f Family) error { return f.Remove(ctx) })
	})
}

// each goes on with the second family after an error of the first.
func (w *Families) each(verb string, call func(Family) error) error {
	var errs []error
	for _, f := range w.served {
		if err := call(f); err != nil {
			errs = append(errs, fmt.Errorf("%s %s portals: %w", verb, f.IP, err))
		}
	}
	return errors.Join(errs...)
}

// Diverts tells whether replies to the addresses of clients that the daemon dials from are marked in a family: with
// Settings.Mark, from the first Replace on, on a host that can.
func (w *Families) Diverts(family inet.Family) bool {
	return slices.ContainsFunc(w.served, func(f Family) bool { return f.IP == family && f.Diverts() })
}

// SetLocalDetector changes Settings.LocalDetector.
func (w *Families) SetLocalDetector(in portal.LocalDetector) error {
	return w.live.SetLocalDetector(in)
}

// SetNodePortAddresses changes Settings.NodePortAddresses; false: they were the same.
func (w *Families) SetNodePortAddresses(addrs []netip.Prefix) bool {
	return w.live.SetNodePortAddresses(addrs)
}

// Settings returns the newest Settings, which may not have taken effect yet.
func (w *Families) Settings() Settings { return w.live.Settings() }

// SetMark changes Settings.Mark.
func (w *Families) SetMark(mark uint32) { w.live.SetMark(mark) }
