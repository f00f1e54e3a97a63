package portal

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/portald/portald/proxy/service"
)

// Limits is what portals must keep to that rules can express: the first and last proxy port.
type Limits struct{ First, Last uint16 }

// Complete refuses what is no range.
func (l Limits) Complete() error {
	if l.First == 0 || l.Last < l.First {
		return fmt.Errorf("proxy ports %d-%d: want a range above 0", l.First, l.Last)
	}
	return nil
}

// ProxyAddress is the one of a family that Redirects lead to, of at most one of each; the zero Addr if there is none.
func ProxyAddress(of []netip.Addr, family service.IPFamily) (netip.Addr, error) {
	var found netip.Addr
	for _, addr := range of {
		if service.FamilyOf(addr) != family {
			continue
		}
		if found.IsValid() || !addr.IsGlobalUnicast() || addr.Is4In6() || addr.Zone() != "" {
			return netip.Addr{}, fmt.Errorf("proxy address %s: want at most one of each family, and unicast", addr)
		}
		found = addr
	}
	return found, nil
}

// Check refuses a portal that no rule of ours can express.
func (l Limits) Check(p Portal) error {
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
	case Reject, Drop:
		return nil
	case Spread:
		return checkSpread(p, target)
	case Redirect:
		if proto == service.SCTP {
			return fmt.Errorf("portal %s of %s: no listener carries %s", p.Frontend, p.Owner, proto)
		}
		if target.Port < l.First || target.Port > l.Last {
			return fmt.Errorf("portal %s of %s: port %d is not one of the proxy ports %d-%d", p.Frontend, p.Owner, target.Port, l.First, l.Last)
		}
		return nil
	}
	return fmt.Errorf("portal %s of %s: cannot hold target %T", p.Frontend, p.Owner, p.Target)
}

// checkSpread refuses a pool that does not go with the frontend.
func checkSpread(p Portal, s Spread) error {
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

// Sound returns the portals that can be held, one a frontend, and what is wrong with the rest.
func (l Limits) Sound(portals []Portal) ([]Portal, error) {
	var errs []error
	seen := make(map[service.Frontend]struct{}, len(portals))
	out := slices.DeleteFunc(slices.Clone(portals), func(p Portal) bool {
		err := l.Check(p)
		if _, twice := seen[p.Frontend]; twice && err == nil {
			err = fmt.Errorf("portal %s of %s: the frontend is taken", p.Frontend, p.Owner)
		}
		seen[p.Frontend] = struct{}{}
		errs = append(errs, err)
		return err != nil
	})
	return out, errors.Join(errs...)
}

// SoundChanges is Sound for changes; one that cannot be made withdraws the frontend.
func (l Limits) SoundChanges(changes []Change) ([]Change, error) {
	var errs []error
	out := slices.Clone(changes)
	for i, c := range out {
		if c.Portal == nil {
			continue
		}
		err := l.Check(*c.Portal)
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
