package nftables

import (
	"errors"
	"fmt"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// limits is what a portal must keep to.
type limits struct{ first, last uint16 }

// check refuses a portal that no rule of ours can express.
func (l limits) check(p portal.Portal) error {
	addr, proto := p.Frontend.Addr.Addr(), p.Frontend.Protocol
	switch {
	case !p.Frontend.Addr.IsValid() || p.Frontend.Addr.Port() == 0 || addr.Is4In6() || addr.Zone() != "":
		return fmt.Errorf("portal %s of %s: no address and port that a rule can match", p.Frontend, p.Owner)
	case addr.IsUnspecified() != (p.Kind == service.NodePort):
		return fmt.Errorf("portal %s of %s: %s at this address", p.Frontend, p.Owner, p.Kind)
	case proto != service.TCP && proto != service.UDP && proto != service.SCTP:
		return fmt.Errorf("portal %s of %s: cannot carry %s", p.Frontend, p.Owner, proto)
	}
	switch target := p.Target.(type) {
	case portal.Reject, portal.Drop:
		return nil
	case portal.Redirect:
		return l.redirect(p, target)
	case portal.Spread:
		return spreads(p, target)
	}
	return fmt.Errorf("portal %s of %s: cannot hold target %T", p.Frontend, p.Owner, p.Target)
}

func (l limits) redirect(p portal.Portal, to portal.Redirect) error {
	if to.Port < l.first || to.Port > l.last {
		return fmt.Errorf("portal %s of %s: port %d is not one of the proxy ports %d-%d", p.Frontend, p.Owner, to.Port, l.first, l.last)
	}
	if !slices.Contains(redirectable(), p.Frontend.Protocol) {
		return fmt.Errorf("portal %s of %s: no listener carries %s", p.Frontend, p.Owner, p.Frontend.Protocol)
	}
	return nil
}

func spreads(p portal.Portal, to portal.Spread) error {
	if to.Pool == nil {
		return fmt.Errorf("portal %s of %s: no pool to spread over", p.Frontend, p.Owner)
	}
	if p.Owner.Protocol != p.Frontend.Protocol {
		return fmt.Errorf("portal %s of %s: the protocol is another than its owner's", p.Frontend, p.Owner)
	}
	for _, some := range [][]portal.Endpoint{to.Pool.Cluster, to.Pool.Node} {
		for _, e := range some {
			if addr := e.Addr.Addr(); !addr.IsValid() || addr.Is6() != p.Frontend.Addr.Addr().Is6() || addr.Is4In6() || addr.Zone() != "" || e.Addr.Port() == 0 {
				return fmt.Errorf("portal %s of %s: cannot lead to endpoint %s", p.Frontend, p.Owner, e.Addr)
			}
		}
	}
	return nil
}

// sound returns the portals that can be held, one a frontend, and what is wrong with the rest.
func (l limits) sound(portals []portal.Portal) ([]portal.Portal, error) {
	var errs []error
	seen := make(map[service.Frontend]struct{}, len(portals))
	out := slices.DeleteFunc(slices.Clone(portals), func(p portal.Portal) bool {
		err := l.check(p)
		if _, twice := seen[p.Frontend]; twice && err == nil {
			err = fmt.Errorf("portal %s of %s: the frontend is taken", p.Frontend, p.Owner)
		}
		seen[p.Frontend] = struct{}{}
		errs = append(errs, err)
		return err != nil
	})
	return out, errors.Join(errs...)
}

// soundChanges is sound for changes; one that cannot be made withdraws the frontend.
func (l limits) soundChanges(changes []portal.Change) ([]portal.Change, error) {
	var errs []error
	out := slices.Clone(changes)
	for i, c := range out {
		if c.Portal == nil {
			continue
		}
		err := l.check(*c.Portal)
		if c.Portal.Frontend != c.Frontend {
			err = fmt.Errorf("change of %s: the portal is that of %s", c.Frontend, c.Portal.Frontend)
		}
		if err != nil {
			out[i].Portal = nil
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}
