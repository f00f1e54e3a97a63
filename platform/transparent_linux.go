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

	"github.com/portald/portald/platform/inet"
)

// Add adds the rules and the route of one family. Existing ones stay.
func (d Divert) Add(family inet.Family) error {
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

// Remove removes them in one family. It is no error if they do not exist.
func (d Divert) Remove(family inet.Family) error {
	var errs []error
	for _, rule := range slices.Backward(d.rules(family)) {
		errs = append(errs, ignoreAbsent(netlink.RuleDel(rule)))
	}
	route, err := d.route(family)
	if err == nil {
		err = ignoreAbsent(netlink.RouteDel(route))
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("stop delivering marked packets of %s here: %w", family, err)
	}
	return nil
}

// rules returns the rules that lead to the table, in the order in which to add them. With src_valid_mark the kernel
// looks up the reverse path with the packet's mark, as if from lo, and must not find it local: such a lookup goes past
// the rule, to the last one, which does nothing.
func (d Divert) rules(family inet.Family) []*netlink.Rule {
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

func (d Divert) addRoute(family inet.Family) error {
	route, err := d.route(family)
	if err != nil {
		return err
	}
	return netlink.RouteReplace(route)
}

// route returns a local route by lo for every address.
func (d Divert) route(family inet.Family) (*netlink.Route, error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("find the loopback interface: %w", err)
	}
	all := &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
	if family == inet.IPv6 {
		all = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	return &netlink.Route{
		Family: netlinkFamily(family), Table: d.Table, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST, Dst: all,
		LinkIndex: lo.Attrs().Index,
	}, nil
}

// ignoreAbsent returns nil for the errors of removing a rule, route, table or address family that does not exist.
func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || err != nil && unsupported(err) {
		return nil
	}
	return err
}

// netlinkFamily is a family in the kernel's words.
func netlinkFamily(family inet.Family) int {
	if family == inet.IPv6 {
		return netlink.FAMILY_V6
	}
	return netlink.FAMILY_V4
}

// unsupported tells whether an error means that the kernel has no IPv6.
func unsupported(err error) bool {
	return errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EPROTONOSUPPORT)
}
