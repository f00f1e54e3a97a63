package portaltest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Fake is a portal.Writer whose host is in memory, for tests of the code above Writers: no kernel is needed, and Dump
// says what there is. It keeps the contract of a Writer: after an error only Replace may follow.
type Fake struct {
	portal.Unsupported
	Has portal.Features

	Portals map[service.Frontend]portal.Portal // what the host holds
	Ports   map[portal.ProxyPort]bool          // proxy ports with a listener
	Checks  map[uint16]bool                    // health-check ports that are let in
	Unknown bool                               // what the host holds is not known: Replace comes first

	Calls   []string // as "update 2"; Called is told of each, too
	Called  func(format string, args ...any)
	Before  func()                    // each Replace and Update
	Refuses func(portal.Portal) error // what is wrong with a portal, once it is written
	Lacks   func(map[service.Frontend]portal.Portal) error
	Invalid func(portal.Portal) error // what is wrong with it, as Check finds it
	Differs error                     // how the host differs from what Adopt expects
	Err     error                     // of each Replace and Update
}

var _ portal.Writer = (*Fake)(nil)

// NewFake returns a Fake whose host holds nothing.
func NewFake() *Fake {
	return &Fake{Portals: map[service.Frontend]portal.Portal{}, Ports: map[portal.ProxyPort]bool{},
		Checks: map[uint16]bool{}}
}

// Features implements portal.Writer.
func (w *Fake) Features() portal.Features { return w.Has }

// Check implements portal.Writer.
func (w *Fake) Check(p portal.Portal) error {
	if w.Invalid == nil {
		return nil
	}
	return w.Invalid(p)
}

// Guard implements portal.Writer.
func (w *Fake) Guard(changes map[portal.ProxyPort]bool) {
	w.call("guard %v", changes)
	set(w.Ports, changes)
}

// Open implements portal.Writer.
func (w *Fake) Open(changes map[uint16]bool) {
	w.call("open %v", changes)
	set(w.Checks, changes)
}

func (w *Fake) call(format string, args ...any) {
	if w.Calls = append(w.Calls, fmt.Sprintf(format, args...)); w.Called != nil {
		w.Called(format, args...)
	}
}

func set[K comparable](all, changes map[K]bool) {
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ K, open bool) bool { return !open })
}

// Replace implements portal.Writer.
func (w *Fake) Replace(_ context.Context, all []portal.Portal) error {
	w.call("replace %d", len(all))
	w.setPortals(all)
	return w.write()
}

// Update implements portal.Writer.
func (w *Fake) Update(_ context.Context, changes []portal.Change) error {
	w.call("update %d", len(changes))
	if w.Unknown {
		return portal.ErrUnknown
	}
	for _, c := range changes {
		if delete(w.Portals, c.Frontend); c.Portal != nil {
			w.Portals[c.Frontend] = *c.Portal
		}
	}
	return w.write()
}

// Adopt implements portal.Writer.
func (w *Fake) Adopt(_ context.Context, all []portal.Portal) error {
	w.call("adopt %d", len(all))
	if w.Unknown = w.Differs != nil; w.Unknown {
		return w.Differs
	}
	w.setPortals(all)
	return nil
}

// Cleanup implements portal.Writer.
func (w *Fake) Cleanup(context.Context) error {
	w.call("cleanup")
	w.setPortals(nil)
	w.Unknown = true
	return nil
}

func (w *Fake) setPortals(all []portal.Portal) {
	w.Portals = map[service.Frontend]portal.Portal{}
	for _, p := range all {
		w.Portals[p.Frontend] = p
	}
}

// write ends a Replace or Update.
func (w *Fake) write() error {
	if w.Before != nil {
		w.Before()
	}
	err := w.verdict()
	w.Unknown = err != nil
	return err
}

func (w *Fake) verdict() error {
	if w.Lacks != nil {
		if err := w.Lacks(w.Portals); err != nil {
			return err
		}
	}
	for _, p := range w.Portals {
		if w.Refuses == nil {
			break
		}
		if err := w.Refuses(p); err != nil {
			w.call("refused")
			return err
		}
	}
	return w.Err
}

// Dump lists the portals on the host, one line each, in order: "ClusterIP 10.96.0.1:80/tcp -> port 20001
// (shop/web/tcp)".
func (w *Fake) Dump() string {
	var lines []string
	for _, p := range w.Portals {
		lines = append(lines, fmt.Sprintf("%s %s -> %s (%s)", p.Kind, p.Frontend, target(p.Target), p.Owner))
	}
	for p := range w.Ports {
		lines = append(lines, fmt.Sprintf("listener %s port %d/%s", p.Family, p.Port, p.Protocol))
	}
	for port := range w.Checks {
		lines = append(lines, fmt.Sprintf("health checks port %d", port))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func target(t portal.Target) string {
	switch to := t.(type) {
	case portal.Redirect:
		text := fmt.Sprintf("port %d", to.Port)
		if to.Inside {
			text += " from inside"
		}
		return text
	case portal.Reject:
		return "reject"
	case portal.Drop:
		return "drop"
	case portal.Spread:
		var addrs []string
		for _, e := range to.Pool.Of(to.Scope) {
			addrs = append(addrs, e.Addr.String())
		}
		return "any of " + strings.Join(addrs, " ")
	}
	return fmt.Sprintf("%T", t)
}
