// Package netsh makes portals reachable on Windows, where nothing redirects: it adds the addresses of frontends to an
// interface of the host, and Listeners serve there what portals redirect. NodePorts are served at the addresses of the
// node. It does not know how traffic is carried.
//
//	w, err := netsh.New(netsh.Options{Listeners: listeners, State: dir})
//	err = w.Replace(ctx, portals)    // netsh interface ipv4 add address ...; listeners.Listen(owner, frontend)
//	next, err := w.Sweep(ctx)        // tries again what failed, removes addresses that connections have left
//
// Addresses are added by a call of Windows (Change), which tells by numbers what is wrong, or where there is no such
// call or it fails, by the command netsh. Its output is in the language of the host, so nothing is decided by it, but
// by the addresses of the host, which are read before and after. They are added for the time until the next boot,
// without a subnet (so that no route comes with them) and not to be chosen as source addresses. A file lists the added
// addresses, from before they are added until after their removal: those that a killed run leaves, the next one takes
// over or removes. An address that the host has otherwise is served, but never removed.
//
// A failure of one portal is reported for that portal, and tried again by Sweep. Replace and Update return an error if
// nothing can be added at all.
package netsh

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// Writer has listeners at the frontends' addresses for portals, and these addresses on the host.
type Writer struct {
	portal.Unsupported
	Options
	live  *writer.Live
	known writer.State
	v6    bool // as New found it

	portals   map[service.Frontend]portal.Portal
	nodePorts map[service.Frontend]struct{} // the portals of this kind
	addrs     map[netip.Addr]*address       // that portals need, or that are ours
	sockets   map[service.Frontend]*socket  // that portals need, each at one address
	troubles  map[service.Frontend]*trouble // of portals
	host      host                          // as it was read last
	moved     map[netip.Addr]struct{}       // what has changed there and was not seen to yet
	served    []netip.Prefix                // NodePorts are served on these addresses; empty means all

	loaded bool  // the state file was read
	saved  state // what it holds
	newer  bool  // other addresses may be ours than it has

	due      time.Time // of the next Sweep that does something
	broken   error     // of the last time that netsh failed for everything
	brokenAt time.Time
}

var _ portal.Writer = (*Writer)(nil)

// New returns a Writer that has changed nothing yet. It returns an error if the host has no such interface.
func New(o Options) (*Writer, error) {
	if o.Listeners == nil {
		return nil, errors.New("netsh: no listeners were given")
	}
	w, err := newWriter(o)
	if err != nil {
		return nil, err
	}
	if err := w.read(); err != nil {
		return nil, err
	}
	w.v6 = w.host.v6
	return w, nil
}

func newWriter(o Options) (*Writer, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Writer{
		Options: o, live: writer.NewLive(writer.Settings{NodePortAddresses: o.NodePortAddresses}),
		portals: map[service.Frontend]portal.Portal{}, nodePorts: map[service.Frontend]struct{}{},
		addrs: map[netip.Addr]*address{}, sockets: map[service.Frontend]*socket{},
		troubles: map[service.Frontend]*trouble{}, moved: map[netip.Addr]struct{}{},
	}, nil
}

// Guard has nothing to do: there are no proxy ports.
func (w *Writer) Guard(map[portal.ProxyPort]bool) {}

// Features tell whether the host spoke IPv6 when the Writer was made.
func (w *Writer) Features() portal.Features { return portal.Features{IPv6: w.v6} }

// SetNodePortAddresses changes Options.NodePortAddresses from the next Replace on; false: they were the same.
func (w *Writer) SetNodePortAddresses(addrs []netip.Prefix) bool {
	return w.live.SetNodePortAddresses(addrs)
}

// Offers returns false: nothing spreads here.
func (w *Writer) Offers(service.Algorithm) bool { return false }

// Check returns an error for a portal that cannot be held.
func (w *Writer) Check(p portal.Portal) error {
	if _, spreads := p.Target.(portal.Spread); spreads {
		return fmt.Errorf("portal %s of %s: nothing on Windows spreads flows without a listener: the mode must be userspace",
			p.Frontend, p.Owner)
	}
	if _, redirects := p.Target.(portal.Redirect); redirects && p.Owner.Protocol != p.Frontend.Protocol {
		return fmt.Errorf("portal %s of %s: its listeners speak %s", p.Frontend, p.Owner, p.Owner.Protocol)
	}
	return writer.Limits{ProxyPorts: inet.PortRange{Last: 1<<16 - 1}}.Check(p)
}

// brokenFor is how long a netsh that failed for everything is not tried again: after an error the same portals are
// written again in parts, to find the one that is to blame.
const brokenFor = 300 * time.Millisecond

// Replace makes the host hold exactly these portals. Sockets that stay open and addresses that stay are not touched.
func (w *Writer) Replace(ctx context.Context, portals []portal.Portal) error {
	return w.known.Full(func() error {
		if time.Since(w.brokenAt) < brokenFor {
			return w.broken
		}
		valid, invalid := writer.Valid(portals, w.Check)
		return w.wrap("replace", errors.Join(invalid, w.replace(ctx, valid)))
	})
}

func (w *Writer) replace(ctx context.Context, portals []portal.Portal) error {
	if err := w.read(); err != nil {
		return err
	}
	if err := w.load(ctx); err != nil {
		return err
	}
	w.served = w.live.Settings().NodePortAddresses
	w.change(w.changesTo(portals))
	return w.apply(ctx, w.everything())
}

// changesTo returns the changes from the present portals to these.
func (w *Writer) changesTo(portals []portal.Portal) []portal.Change {
	out := make([]portal.Change, 0, len(portals))
	stay := make(map[service.Frontend]struct{}, len(portals))
	for _, p := range portals {
		out, stay[p.Frontend] = append(out, portal.Change{Frontend: p.Frontend, Portal: &p}), struct{}{}
	}
	for f := range w.portals {
		if _, ok := stay[f]; !ok {
			out = append(out, portal.Change{Frontend: f})
		}
	}
	return out
}

// Update applies changes. While no address comes or goes it does not touch the host; else its cost grows with the
// addresses of the host, by reading them.
func (w *Writer) Update(ctx context.Context, changes []portal.Change) error {
	return w.known.Incremental("update", func() error {
		valid, invalid := writer.ValidChanges(changes, w.Check)
		return w.wrap("update", errors.Join(invalid, w.apply(ctx, w.change(valid))))
	})
}

// change takes changes over, and returns what they touch.
func (w *Writer) change(changes []portal.Change) scope {
	touched := newScope()
	for _, c := range changes {
		was, known := w.portals[c.Frontend]
		if known {
			w.drop(was, c.Portal)
		}
		if c.Portal != nil {
			w.enter(*c.Portal)
		}
		w.touch(touched, c.Frontend)
	}
	return touched
}

func (w *Writer) enter(p portal.Portal) {
	f := p.Frontend
	w.portals[f] = p
	if p.Kind == service.NodePort {
		w.nodePorts[f] = struct{}{}
		return
	}
	w.address(f.Addr.Addr()).users[f] = struct{}{}
}

// drop forgets a portal that another replaces, or nil. The troubles of an owner end with its portal.
func (w *Writer) drop(p portal.Portal, by *portal.Portal) {
	f := p.Frontend
	delete(w.portals, f)
	delete(w.nodePorts, f)
	if by == nil || by.Owner != p.Owner {
		w.endTrouble(f)
	}
	if a := w.addrs[f.Addr.Addr()]; a != nil {
		delete(a.users, f)
	}
}

// apply makes the host as it is to be, within a scope. Sockets close before their address goes, and open once it is
// there. After an error of netsh what can be served is served.
func (w *Writer) apply(ctx context.Context, s scope) error {
	w.closeUnwanted(s)
	err := w.applyAddresses(ctx, s)
	if err != nil && ctx.Err() == nil {
		w.broken, w.brokenAt = err, time.Now()
	}
	w.openWanted(s)
	return err
}

// Cleanup closes all sockets, and removes every address that this run or an earlier one added.
func (w *Writer) Cleanup(ctx context.Context) error {
	w.known.Forget()
	w.change(w.changesTo(nil))
	w.closeUnwanted(w.everything())
	return w.wrap("remove", w.remove(ctx))
}

// Remove removes what a run with these Options left, which take no Listeners.
func Remove(ctx context.Context, o Options) error {
	w, err := newWriter(o)
	if err != nil {
		return err
	}
	return w.Cleanup(ctx)
}

func (w *Writer) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s portals by netsh: %w", verb, err)
}
