package ipvs

import "github.com/vishvananda/netlink"

// Present tells whether a Writer with this prefix has written something on this host that is still there, without
// loading any module.
func Present(prefix string) bool {
	_, err := netlink.LinkByName(newNames(prefix).device)
	return err == nil
}
