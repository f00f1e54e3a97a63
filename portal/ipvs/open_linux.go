package ipvs

import (
	"fmt"
	"os"
	"strings"

	"github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform"
)

// openKernel opens the kernel; device is the name of the one that is to hold addresses.
func openKernel(device string) (kernel, error) {
	balancer, err := ipvs.New("")
	if err != nil {
		return kernel{}, fmt.Errorf("open IPVS: %w", err)
	}
	links, err := netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
	if err != nil {
		balancer.Close()
		return kernel{}, fmt.Errorf("open netlink: %w", err)
	}
	h := &host{balancer: balancer, links: links, device: device}
	return kernel{
		virtualServers: h.virtualServers, addServer: h.addServer, editServer: h.editServer, removeServer: h.removeServer,
		destinations: h.destinations, addDestination: h.addDestination, setWeight: h.setWeight,
		removeDestination: h.removeDestination,
		makeDevice:        h.makeDevice, removeDevice: h.removeDevice, hostAddresses: h.hostAddresses,
		addAddress: h.addAddress, removeAddress: h.removeAddress,
		makeSet: h.makeSet, elementsOf: h.elementsOf, addElement: h.addElement, removeElement: h.removeElement,
		destroySet: h.destroySet, sizes: h.sizes,
		version: platform.Kernel,
		sysctl:  sysctl, timeouts: h.timeouts, speaksIPv6: speaksIPv6, close: h.close,
		hasScheduler: func(name string) bool { return scheduler(name) == nil },
	}, nil
}

func speaksIPv6() bool {
	off, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil && strings.TrimSpace(string(off)) == "0"
}
