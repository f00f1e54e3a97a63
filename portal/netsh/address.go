package netsh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
)

// address is one that portals need, or that is ours.
type address struct {
	users map[service.Frontend]struct{} // portals of it
	ours  bool                          // added by this run or an earlier one, or about to be
	added time.Time
	retry
}

// address returns the entry of an address, and makes it if there is none.
func (w *Writer) address(a netip.Addr) *address {
	x := w.addrs[a]
	if x == nil {
		x = &address{users: map[service.Frontend]struct{}{}}
		w.addrs[a] = x
	}
	return x
}

func (x *address) wanted() bool { return len(x.users) > 0 }

// detection bounds how long an address may be tentative before that is reported: Windows asks other hosts for three
// seconds.
const detection = 10 * time.Second

// errPending is why nothing can be bound to an address yet, which is not reported.
var errPending = errors.New("the address is being added")

var errDuplicate = errors.New("another host of the network has it too, as duplicate-address detection says")

// obstacle says why nothing can be bound to an address; nil if it can.
func (w *Writer) obstacle(a netip.Addr) error {
	p, there := w.host.addrs[a]
	x := w.addrs[a]
	switch {
	case !there && x != nil && x.err != nil:
		return x.err
	case !there:
		return errPending
	case p.state == Duplicate:
		return fmt.Errorf("address %s: %w", a, errDuplicate)
	case p.state == Tentative && x != nil && x.err != nil:
		return x.err
	case p.state == Tentative && x != nil && time.Since(x.added) < detection:
		return errPending
	case p.state == Tentative:
		return fmt.Errorf("address %s: it is tentative for more than %s: is interface %q connected?", a, detection,
			w.host.device.Name)
	}
	return nil
}

// applyAddresses adds and removes what is due within a scope. The state file has an address before it is added, and
// until it is gone.
func (w *Writer) applyAddresses(ctx context.Context, s scope) error {
	adds, removals := w.toDo(s)
	for _, a := range adds {
		x := w.addrs[a]
		w.newer = w.newer || !x.ours
		x.ours, x.added = true, time.Now()
	}
	if err := w.save(); err != nil {
		return err
	}
	if err := w.removeAll(ctx, removals); err != nil {
		return err
	}
	if err := w.addAll(ctx, adds); err != nil {
		return err
	}
	w.forgetGone(s)
	return w.save()
}

// toDo returns the addresses to add and to remove now. Addresses of open connections stay until Sweep finds that those
// ended.
func (w *Writer) toDo(s scope) (adds, removals []netip.Addr) {
	carried := sync.OnceValue(w.Carried)
	for _, a := range slices.SortedFunc(maps.Keys(s.addrs), netip.Addr.Compare) {
		x := w.addrs[a]
		if x == nil || x.waits() {
			continue
		}
		switch p, there := w.host.addrs[a]; {
		case x.wanted() && !there:
			adds = append(adds, a)
		case !x.wanted() && there && x.ours:
			if _, needed := carried()[a]; !needed {
				removals = append(removals, a)
			}
		case x.ours && there && p.state == Duplicate: // Windows looks for the other host when it is added again
			adds, removals = append(adds, a), append(removals, a)
			x.failed(w.obstacle(a))
			w.wake(x.retry)
		case p.state == Usable:
			x.retry = retry{}
		}
	}
	return adds, removals
}

// forgetGone forgets addresses that nobody needs and the host does not have, or has by itself.
func (w *Writer) forgetGone(s scope) {
	for a := range s.addrs {
		x := w.addrs[a]
		if _, there := w.host.addrs[a]; x != nil && !x.wanted() && (!there || !x.ours) {
			w.newer = w.newer || x.ours
			delete(w.addrs, a)
		}
	}
}

// removeAll removes addresses. One that stays is tried again by Sweep.
func (w *Writer) removeAll(ctx context.Context, addrs []netip.Addr) error {
	left, err := w.perform(ctx, removing, addrs)
	for a, why := range left {
		w.addrs[a].failed(why)
		w.wake(w.addrs[a].retry)
		w.Log("%v; it is tried again", why)
	}
	return err
}

// addAll adds addresses. One that cannot be added is tried again by Sweep; if none can, and the device has none of
// ours, netsh does not work here at all, which is an error.
func (w *Writer) addAll(ctx context.Context, addrs []netip.Addr) error {
	refused, err := w.perform(ctx, adding, addrs)
	if err != nil {
		return err
	}
	if len(refused) > 0 && !w.hasOwnAddress() {
		return fmt.Errorf("%w; the same with all %d: portald has to run as LocalSystem or as an administrator",
			refused[addrs[0]], len(addrs))
	}
	for _, a := range addrs {
		switch x := w.addrs[a]; {
		case refused[a] != nil:
			x.failed(refused[a])
			w.wake(x.retry)
		case !errors.Is(x.err, errDuplicate): // which remains to be seen
			x.retry = retry{}
		}
	}
	return nil
}

// hasOwnAddress tells whether the device has an address of ours.
func (w *Writer) hasOwnAddress() bool {
	for a, x := range w.addrs {
		if x.ours && w.host.addrs[a].alone {
			return true
		}
	}
	return false
}
