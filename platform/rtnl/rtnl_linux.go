// Package rtnl lists links, addresses and routes of the host, whole. The kernel answers a listing in parts, and marks
// it as interrupted if something changed in between, which on a node happens whenever a pod starts: entries may be
// missing then, and who takes the rest for all there is would remove what is in use.
package rtnl

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// attempts bounds how often a listing is made again. One takes less than a millisecond for a thousand entries, and
// something changes in each of so many only if the host does nothing else.
const attempts = 20

// Links returns the interfaces.
func Links() ([]netlink.Link, error) { return Whole("interfaces", netlink.LinkList) }

// Addresses returns the addresses of an interface, nil: of all, of a family such as netlink.FAMILY_ALL.
func Addresses(link netlink.Link, family int) ([]netlink.Addr, error) {
	return Whole("addresses", func() ([]netlink.Addr, error) { return netlink.AddrList(link, family) })
}

// Routes returns the routes of the main table of a family.
func Routes(family int) ([]netlink.Route, error) {
	return Whole("routes", func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
}

// Whole returns what a listing of netlink has once nothing changed meanwhile. what are its entries, for the error.
func Whole[T any](what string, list func() ([]T, error)) (all []T, err error) {
	for range attempts {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return all, nil
}
