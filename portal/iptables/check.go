package iptables

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
	case portal.Spread:
		return checkSpread(p, target)
	case portal.Redirect:
		if proto == service.SCTP {
			return fmt.Errorf("portal %s of %s: no listener carries %s", p.Frontend, p.Owner, proto)
		}
		if target.Port < l.first || target.Port > l.last {
			return fmt.Errorf("portal %s of %s: port %d is not one of the proxy ports %d-%d", p.Frontend, p.Owner, target.Port, l.first, l.last)
		}
		return nil
	}
	return fmt.Errorf("portal %s of %s: cannot hold target %T", p.Frontend, p.Owner, p.Target)
}

// checkSpread refuses a pool that does not go with the portal.
func checkSpread(p portal.Portal, s portal.Spread) error {
	switch {
	case s.Pool == nil:
		return fmt.Errorf("portal %s of %s: spreads over no pool", p.Frontend, p.Owner)
	case p.Owner.Protocol != p.Frontend.Protocol:
		return fmt.Errorf("portal %s of %s: leads to endpoints for %s", p.Frontend, p.Owner, p.Owner.Protocol)
	}
	for _, e := range slices.Concat(s.Pool.Cluster, s.Pool.Node) {
		if !e.Addr.IsValid() || e.Addr.Port() == 0 || e.Addr.Addr().Is6() != p.Frontend.Addr.Addr().Is6() || e.Addr.Addr().Zone() != "" {
			return fmt.Errorf("portal %s of %s: endpoint %s: want address and port of its family", p.Frontend, p.Owner, e.Addr)
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
