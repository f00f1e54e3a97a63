package platform

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Interfaces knows the network interfaces of the namespace that it was made in. Safe for concurrent use.
type Interfaces struct{ fd int }

// NewInterfaces returns an Interfaces, to be closed when nobody asks it any more.
func NewInterfaces() (*Interfaces, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket to ask for interfaces: %w", err)
	}
	return &Interfaces{fd}, nil
}

// Name is the name of the interface with that index, empty when there is none. It asks the kernel each time, which
// costs one system call that does not wait: a pod's interface is as old as the pod, and its index may be used again.
func (i *Interfaces) Name(index int) string {
	request, err := unix.NewIfreq("")
	if err != nil || index <= 0 {
		return ""
	}
	request.SetUint32(uint32(index))
	if unix.IoctlIfreq(i.fd, unix.SIOCGIFNAME, request) != nil {
		return ""
	}
	return request.Name()
}

// Close lets go of what Name needs.
func (i *Interfaces) Close() { unix.Close(i.fd) }
