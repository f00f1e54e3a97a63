// Package netsh holds portals on Windows, where nothing redirects: it adds the addresses of frontends to an interface
// of the host, by the command netsh, and has Listeners serve there what portals redirect. It does not know how.
package netsh

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
	"github.com/portald/portald/proxy/service"
)

// Writer implements portal.HostWriter. One goroutine uses it; what begins with Set is for any.
type Writer struct {
	Options
	*writer.Live
	known   writer.State
	portals map[service.Frontend]portal.Portal
	ours    map[netip.Addr]bool
	v6      bool
}

var _ portal.HostWriter = (*Writer)(nil)

// New returns a Writer that has changed nothing yet.
func New(o Options) (*Writer, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	w := &Writer{Options: o, Live: writer.NewLive(writer.Settings{NodePortAddresses: o.NodePortAddresses})}
	w.portals, w.ours = map[service.Frontend]portal.Portal{}, map[netip.Addr]bool{}
	if _, err := w.device(); err != nil {
		return nil, err
	}
	return w, nil
}

// Guard has nothing to do: there are no proxy ports.
func (w *Writer) Guard(map[portal.ProxyPort]bool) {}

// IPv6 tells whether the host speaks it.
func (w *Writer) IPv6() bool { return w.v6 }

// Diverts is false: nothing marks packets.
func (w *Writer) Diverts(service.IPFamily) bool { return false }

// device finds the interface.
func (w *Writer) device() (Interface, error) {
	all, err := w.Interfaces()
	if err != nil {
		return Interface{}, err
	}
	var names []string
	for _, i := range all {
		for _, a := range i.Addresses {
			w.v6 = w.v6 || a.Prefix.Addr().Is6()
		}
		if strings.EqualFold(i.Name, w.Interface) {
			return i, nil
		}
		names = append(names, strconv.Quote(i.Name))
	}
	return Interface{}, fmt.Errorf("interfaceName: this host has no interface %q; it has %s",
		w.Interface, strings.Join(names, ", "))
}

// Replace makes the host hold exactly these portals.
func (w *Writer) Replace(ctx context.Context, portals []portal.Portal) error {
	return w.known.Full(func() error {
		var changes []portal.Change
		stay := map[service.Frontend]bool{}
		for _, p := range portals {
			changes, stay[p.Frontend] = append(changes, portal.Change{Frontend: p.Frontend, Portal: &p}), true
		}
		for f := range w.portals {
			if !stay[f] {
				changes = append(changes, portal.Change{Frontend: f})
			}
		}
		return w.apply(ctx, changes)
	})
}

// Update applies changes.
func (w *Writer) Update(ctx context.Context, changes []portal.Change) error {
	return w.known.Incremental("update", func() error { return w.apply(ctx, changes) })
}

func (w *Writer) apply(ctx context.Context, changes []portal.Change) error {
	device, err := w.device()
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range changes {
		if was, ok := w.portals[c.Frontend]; ok && (c.Portal == nil || c.Portal.Owner != was.Owner) {
			w.Listeners.Unlisten(was.Owner, c.Frontend.Addr)
			delete(w.portals, c.Frontend)
		}
		if c.Portal != nil {
			errs = append(errs, w.open(ctx, device, *c.Portal))
			w.portals[c.Frontend] = *c.Portal
		}
	}
	return errors.Join(errs...)
}

func (w *Writer) open(ctx context.Context, device Interface, p portal.Portal) error {
	addr := p.Frontend.Addr.Addr()
	if !w.ours[addr] && addr.Is4() {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		got, err := w.Run(ctx, "interface", "ipv4", "add", "address", "name="+strconv.Itoa(device.Index),
			"address="+addr.String(), "mask=255.255.255.255", "store=active", "skipassource=true")
		if err != nil {
			return err
		}
		if got.Code != 0 {
			return fmt.Errorf("netsh adds no address %s: exit code %d: %s", addr, got.Code, got.message())
		}
		w.ours[addr] = true
	}
	if _, ok := p.Target.(portal.Redirect); !ok {
		return nil
	}
	return w.Listeners.Listen(p.Owner, p.Frontend.Addr)
}

// Cleanup removes every address that was added.
func (w *Writer) Cleanup(ctx context.Context) error {
	device, err := w.device()
	if err != nil {
		return err
	}
	for addr := range w.ours {
		if _, err := w.Run(ctx, "interface", "ipv4", "delete", "address", "name="+strconv.Itoa(device.Index),
			"address="+addr.String(), "store=active"); err != nil {
			return err
		}
	}
	return nil
}

// Audit tells whether the host holds what was written.
func (w *Writer) Audit(context.Context) error {
	return w.known.Verify(func() error { _, err := w.device(); return err })
}

// Check returns an error for a portal that cannot be held.
func (w *Writer) Check(p portal.Portal) error {
	if _, ok := p.Target.(portal.Spread); ok {
		return fmt.Errorf("portal %s of %s: nothing spreads on Windows: its mode must be userspace", p.Frontend, p.Owner)
	}
	return writer.Limits{Last: 65535}.Check(p)
}
