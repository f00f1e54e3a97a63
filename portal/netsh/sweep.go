package netsh

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/portal/writer"
)

// follow is how often the host's addresses are looked at. Others may remove ours, and DHCP changes the node's.
const follow = 5 * time.Second

// Sweep follows changes of the host's addresses, and tries again what has failed. It returns when it is due again.
func (w *Writer) Sweep(ctx context.Context) (next time.Time, err error) {
	if time.Now().Before(w.due) {
		return w.due, nil
	}
	err = w.known.Incremental("sweep", func() error { return w.wrap("sweep", w.sweep(ctx)) })
	w.schedule()
	return w.due, err
}

// sweep touches all addresses: which of them need something, the host says.
func (w *Writer) sweep(ctx context.Context) error {
	if err := w.read(); err != nil {
		return err
	}
	s := newScope()
	w.touchMoved(s)
	for a := range w.addrs {
		s.addrs[a] = struct{}{}
	}
	for at, x := range w.sockets {
		if !x.done && !x.waits() {
			s.sockets[at] = struct{}{}
		}
	}
	return w.apply(ctx, s)
}

// schedule sets when Sweep is due.
func (w *Writer) schedule() {
	w.due = time.Now().Add(follow)
	for _, x := range w.addrs {
		if x.err != nil {
			w.wake(x.retry)
		}
	}
	for _, x := range w.sockets {
		if !x.done {
			w.wake(x.retry)
		}
	}
}

// wake has Sweep try something again when that is due. Work that is due already, and waits for something else, is
// looked at now and then.
func (w *Writer) wake(r retry) {
	at := r.next
	if soon := time.Now().Add(poll); at.Before(soon) {
		at = soon
	}
	if at.Before(w.due) {
		w.due = at
	}
}

// poll is how often something is looked at that is about to be there.
const poll = 200 * time.Millisecond

// Disturbed is for Sweep, which looks at the host each few seconds.
func (w *Writer) Disturbed() bool { return false }

// Audit compares the addresses of the host with those that portals need. Known failures are no drift.
func (w *Writer) Audit(context.Context) error {
	return w.known.Verify(func() error {
		if err := w.read(); err != nil {
			return w.wrap("audit", err)
		}
		var drift writer.Drift
		carried := sync.OnceValue(w.Carried)
		for _, a := range slices.SortedFunc(maps.Keys(w.addrs), netip.Addr.Compare) {
			x := w.addrs[a]
			_, there := w.host.addrs[a]
			switch {
			case x.err != nil:
			case x.wanted() && !there:
				drift.Add("the host has not address %s", a)
			case x.ours && there && !x.wanted():
				if _, needed := carried()[a]; !needed {
					drift.Add("the host has address %s, which no portal needs", a)
				}
			}
		}
		return w.wrap("audit", drift.Err())
	})
}
