package ipvs

import (
	"net/netip"
	"time"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/service"
)

// kernel is the one door to the host. Its errors say what could not be done to what.
type kernel struct {
	virtualServers func() (map[service.Frontend]settings, error)
	addServer      func(service.Frontend, settings) error
	editServer     func(service.Frontend, settings) error
	removeServer   func(service.Frontend) error // and its endpoints and connections

	destinations      func(service.Frontend) ([]destination, error)
	addDestination    func(f service.Frontend, addr netip.AddrPort, weight int) error
	setWeight         func(f service.Frontend, addr netip.AddrPort, weight int) error
	removeDestination func(f service.Frontend, addr netip.AddrPort) error

	makeDevice    func() error // unless it is there
	removeDevice  func() error // if it is there
	hostAddresses func() (device, others []netip.Addr, err error)
	addAddress    func(netip.Addr) error
	removeAddress func(netip.Addr) error

	makeSet       func(set) error                    // unless it is there
	elementsOf    func(set) ([]element, bool, error) // false: there is no such set
	addElement    func(name string, e element) error // unless it is there
	removeElement func(name string, e element) error // if it is there
	destroySet    func(name string) error            // if it is there
	sysctl        func(name, value string) error     // below /proc/sys, where the kernel has it
	version       func() platform.KernelVersion
	timeouts      func(tcp, fin, udp time.Duration) error // 0 leaves one alone
	speaksIPv6    func() bool
	hasScheduler  func(name string) bool                   // for any goroutine; loads its module where that may be
	sizes         func(sets map[string]bool) (sizes, bool) // of the sets of these names; false: not known
	close         func()
}

// settings are the attributes of a virtual server beside its frontend and its endpoints.
type settings struct {
	scheduler string
	flags     uint32
	timeout   uint32 // of persistence, in seconds
}

// Flags of a virtual server, the kernel's IP_VS_SVC_F_…
const (
	persistent = 0x0001 // a client has the endpoint that it had last
	fallback   = 0x0008 // mh and sh give the clients of an endpoint that drains to others, or they refuse them
	mhPort     = 0x0010 // the scheduler mh looks at the client's port too, or all of a client's go to one endpoint
	ownFlags   = persistent | fallback | mhPort | 0x0020
)

// destination is an endpoint as the kernel knows it.
type destination struct {
	addr   netip.AddrPort
	weight int
	conns  int // active and inactive ones
}

// sizes are how much the kernel holds, by which it shows that others changed something. They are no proof that nobody
// did.
type sizes struct {
	servers  int // virtual servers of IPv4, of all programs
	elements int // of our sets
	device   bool
}
