//go:build !linux

package platform

import (
	"context"
	"net"
	"net/netip"
)

// Interfaces looks up network interfaces in the system each time.
type Interfaces struct{}

// NewInterfaces returns an Interfaces.
func NewInterfaces() (*Interfaces, error) { return &Interfaces{}, nil }

// Name is the name of the interface with that index, empty when there is none.
func (*Interfaces) Name(index int) string {
	device, err := net.InterfaceByIndex(index)
	if err != nil {
		return ""
	}
	return device.Name
}

// NameKnown knows no name without asking the system.
func (*Interfaces) NameKnown(index int) (name string, known bool) { return "", index <= 0 }

// Run waits until ctx ends.
func (*Interfaces) Run(ctx context.Context, _ func(error)) error {
	<-ctx.Done()
	return nil
}

// Close has nothing to close.
func (*Interfaces) Close() {}

// Paths knows no routes here. In doubt its answers are no.
type Paths struct{}

// NewPaths returns a Paths.
func NewPaths(*Interfaces) (*Paths, error) { return &Paths{}, nil }

// Run waits until ctx ends.
func (*Paths) Run(ctx context.Context, _ func(error)) error {
	<-ctx.Done()
	return nil
}

// Returns is false: no answer to a client's own address can be led back here.
func (*Paths) Returns(_, _ netip.Addr, _ int) bool { return false }

// ReturnsKnown is Returns.
func (*Paths) ReturnsKnown(_, _ netip.Addr, _ int) (yes, known bool) { return false, true }

// Remote is false: no address is known to be another host's.
func (*Paths) Remote(netip.Addr) bool { return false }

// RemoteKnown is Remote.
func (*Paths) RemoteKnown(netip.Addr) (remote, known bool) { return false, true }

// Close has nothing to close.
func (*Paths) Close() {}
