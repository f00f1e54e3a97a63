package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// Add makes the rules and the route in one family. What is there already stays.
func (d Divert) Add(family service.IPFamily) error {
	err := d.addRoute(family)
	for _, rule := range d.rules(family) {
		if err == nil {
			err = netlink.RuleAdd(rule)
		}
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("deliver marked packets of %s here: %w", family, err)
	}
	return nil
}

// Remove removes them in one family; it is no error that they are not there.
func (d Divert) Remove(family service.IPFamily) error {
	var errs []error
	for _, rule := range slices.Backward(d.rules(family)) {
		errs = append(errs, present(netlink.RuleDel(rule)))
	}
	route, err := d.route(family)
	if err == nil {
		err = present(netlink.RouteDel(route))
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("deliver marked packets of %s here no more: %w", family, err)
	}
	return nil
}

// rules lead to the table, in the order in which to make them. The kernel may ask with a packet's mark where an answer
// to it would go (src_valid_mark), as if that came from lo, and must not hear "here": that goes past the rule, to the
// last, which does nothing.
func (d Divert) rules(family service.IPFamily) []*netlink.Rule {
	past, lead, end := netlink.NewRule(), netlink.NewRule(), netlink.NewRule()
	past.Goto, past.IifName = d.Priority+2, "lo"
	lead.Table = d.Table
	end.Type = ruleNop
	all := []*netlink.Rule{past, lead, end}
	for i, rule := range all {
		rule.Family, rule.Priority = netlinkFamily(family), d.Priority+i
		rule.Mark, rule.Mask = d.Mark, &d.Mark
	}
	return []*netlink.Rule{end, past, lead}
}

// ruleNop is FR_ACT_NOP of linux/fib_rules.h.
const ruleNop = 3

func (d Divert) addRoute(family service.IPFamily) error {
	route, err := d.route(family)
	if err != nil {
		return err
	}
	return netlink.RouteReplace(route)
}

// route is local, by lo, for every address.
func (d Divert) route(family service.IPFamily) (*netlink.Route, error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("find the loopback interface: %w", err)
	}
	all := &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
	if family == service.IPv6 {
		all = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	return &netlink.Route{
		Family: netlinkFamily(family), Table: d.Table, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST, Dst: all,
		LinkIndex: lo.Attrs().Index,
	}, nil
}

// present is an error of removing what is there: not how the kernel answers for a rule, route or table that it has not,
// or for want of the family.
func present(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || err != nil && unsupported(err) {
		return nil
	}
	return err
}

// netlinkFamily is a family in the kernel's words.
func netlinkFamily(family service.IPFamily) int {
	if family == service.IPv6 {
		return netlink.FAMILY_V6
	}
	return netlink.FAMILY_V4
}

// unsupported is how a kernel without IPv6 answers for that family.
func unsupported(err error) bool {
	return errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EPROTONOSUPPORT)
}
