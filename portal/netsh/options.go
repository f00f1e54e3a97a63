package netsh

import (
	"context"
	"errors"
	"net/netip"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// DefaultInterface is the one that kube-proxy's userspace mode of Windows adds addresses to.
const DefaultInterface = "vEthernet (HNS Internal NIC)"

// Listeners open sockets at frontends. Both calls are cheap and idempotent.
type Listeners interface {
	// Listen has the service port served at an address of this host; nil if it is already.
	Listen(owner service.PortName, at netip.AddrPort) error
	// Unlisten ends that for new clients.
	Unlisten(owner service.PortName, at netip.AddrPort)
}

// Options of a Writer. Only Listeners and State have no default.
type Options struct {
	// Listeners serve what portals redirect.
	Listeners Listeners
	// Interface is the name of the interface that gets the addresses; default DefaultInterface.
	Interface string
	// State is the path of a folder for this Writer alone, which is made: a file there has the addresses that were added.
	State string
	// NodePortAddresses are the local addresses that NodePorts are served on; empty means all. Loopback addresses are not
	// served here. SetNodePortAddresses changes them later.
	NodePortAddresses []netip.Prefix
	// Change changes addresses; netsh does what it does not. Default
	// platform.ChangeAddress, with a Run that is given none.
	Change Change
	// Run runs netsh; default Command.
	Run Run
	// Interfaces reads the host's interfaces, with their addresses; default HostInterfaces.
	Interfaces func() ([]Interface, error)
	// Carried returns the addresses that open connections were accepted at: one without portals is removed when there are
	// none any more. Default none.
	Carried func() map[netip.Addr]struct{}
	// Failed is called when a portal cannot be had, or not at all of its addresses; again when the error is another one;
	// and, with the same portal and nil, when that is over or its owner has it no more. Sweep tries such portals again.
	// Default none.
	Failed func(portal.Portal, error)
	// Log is called for unrequested changes of addresses. Default none.
	Log func(format string, args ...any)
}

// Change adds an address to the interface of a LUID, as netsh does (adding), or removes it. It returns an error that
// wraps errors.ErrUnsupported if this host has no such call.
type Change func(luid uint64, a netip.Addr, add bool) error

// Run runs netsh with arguments, and kills it when ctx ends. An error is for a netsh that did not run to its end.
type Run func(ctx context.Context, args ...string) (Result, error)

// Result is netsh's output, in the language of the host, and its exit code.
type Result struct {
	Output string
	Code   int
}

// Interface is a network interface.
type Interface struct {
	Name      string
	Index     int
	LUID      uint64 // of Windows: unlike the index, it never changes
	Addresses []Address
}

// Address is an address of an interface, with the length of its subnet's prefix.
type Address struct {
	Prefix netip.Prefix
	State  AddressState
}

// AddressState is the result of duplicate-address detection.
type AddressState uint8

// The states of addresses. Sockets can only be bound to usable ones.
const (
	Usable    AddressState = iota
	Tentative              // other hosts are being asked
	Duplicate              // another host has it
)

// complete sets defaults, and refuses what makes no sense.
func (o *Options) complete() error {
	if o.State == "" {
		return errors.New("netsh: no path of a state folder was given")
	}
	if o.Interface == "" {
		o.Interface = DefaultInterface
	}
	if o.Change == nil {
		o.Change = func(uint64, netip.Addr, bool) error { return errors.ErrUnsupported }
		if o.Run == nil {
			o.Change = platform.ChangeAddress
		}
	}
	if o.Run == nil {
		o.Run = Command
	}
	if o.Interfaces == nil {
		o.Interfaces = HostInterfaces
	}
	if o.Carried == nil {
		o.Carried = func() map[netip.Addr]struct{} { return nil }
	}
	if o.Failed == nil {
		o.Failed = func(portal.Portal, error) {}
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	return nil
}
