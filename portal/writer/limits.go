package writer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Limits bound what rules can express: the proxy ports that a Redirect may lead to.
type Limits struct{ ProxyPorts inet.PortRange }

func (l Limits) check() error {
	if l.ProxyPorts.First == 0 || l.ProxyPorts.Size() == 0 {
		return fmt.Errorf("proxy ports %s: want a range above 0", l.ProxyPorts)
	}
	return nil
}

// Check returns an error for a portal that no rule can express.
func (l Limits) Check(p portal.Portal) error {
	if err := checkFrontend(p); err != nil {
		return err
	}
	switch target := p.Target.(type) {
	case portal.Reject, portal.Drop:
		return nil
	case portal.Spread:
		return checkSpread(p, target)
	case portal.Redirect:
		return l.checkRedirect(p, target)
	}
	return fmt.Errorf("portal %s of %s: cannot hold target %T", p.Frontend, p.Owner, p.Target)
}

func checkFrontend(p portal.Portal) error {
	addr, proto := p.Frontend.Addr.Addr(), p.Frontend.Protocol
	switch {
	case !p.Frontend.Addr.IsValid() || p.Frontend.Addr.Port() == 0 || addr.Is4In6() || addr.Zone() != "":
		return fmt.Errorf("portal %s of %s: no address and port that a rule can match", p.Frontend, p.Owner)
	case addr.IsUnspecified() != (p.Kind == service.NodePort):
		return fmt.Errorf("portal %s of %s: %s at this address", p.Frontend, p.Owner, p.Kind)
	case proto != inet.TCP && proto != inet.UDP && proto != inet.SCTP:
		return fmt.Errorf("portal %s of %s: cannot carry %s", p.Frontend, p.Owner, proto)
	}
	return nil
}

func (l Limits) checkRedirect(p portal.Portal, to portal.Redirect) error {
	if proto := p.Frontend.Protocol; proto == inet.SCTP {
		return fmt.Errorf("portal %s of %s: no listener carries %s", p.Frontend, p.Owner, proto)
	}
	if !l.ProxyPorts.Contains(to.Port) {
		return fmt.Errorf("portal %s of %s: port %d is not one of the proxy ports %s",
			p.Frontend, p.Owner, to.Port, l.ProxyPorts)
	}
	return nil
}

// checkSpread refuses a pool that does not go with the frontend.
func checkSpread(p portal.Portal, s portal.Spread) error {
	switch {
	case s.Pool == nil:
		return fmt.Errorf("portal %s of %s: spreads over no pool", p.Frontend, p.Owner)
	case p.Owner.Protocol != p.Frontend.Protocol:
		return fmt.Errorf("portal %s of %s: leads to endpoints for %s", p.Frontend, p.Owner, p.Owner.Protocol)
	}
	family := inet.FamilyOf(p.Frontend.Addr.Addr())
	for _, e := range slices.Concat(s.Pool.Cluster, s.Pool.Node) {
		addr := e.Addr.Addr()
		if !e.Addr.IsValid() || e.Addr.Port() == 0 || inet.FamilyOf(addr) != family || addr.Zone() != "" {
			return fmt.Errorf("portal %s of %s: endpoint %s: want address and port of its family", p.Frontend, p.Owner, e.Addr)
		}
	}
	return nil
}

// Valid returns the portals that pass a check, one a frontend, and what is wrong with the rest.
func Valid(portals []portal.Portal, check func(portal.Portal) error) ([]portal.Portal, error) {
	var errs []error
	seen := make(map[service.Frontend]struct{}, len(portals))
	out := slices.DeleteFunc(slices.Clone(portals), func(p portal.Portal) bool {
		err := check(p)
		if _, twice := seen[p.Frontend]; twice && err == nil {
			err = fmt.Errorf("portal %s of %s: the frontend is taken", p.Frontend, p.Owner)
		}
		seen[p.Frontend] = struct{}{}
		errs = append(errs, err)
		return err != nil
	})
	return out, errors.Join(errs...)
}

// ValidChanges is Valid for changes; one that fails withdraws the frontend.
func ValidChanges(changes []portal.Change, check func(portal.Portal) error) ([]portal.Change, error) {
	var errs []error
	out := slices.Clone(changes)
	for i, c := range out {
		if c.Portal == nil {
			continue
		}
		err := check(*c.Portal)
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
