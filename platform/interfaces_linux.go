package platform

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/rtnl"
)

// Interfaces knows the network interfaces of the network namespace in which it was created. While Run runs it follows
// rtnetlink. Safe for concurrent use.
type Interfaces struct {
	fd    int
	known atomic.Pointer[map[int]iface] // by index; nil while not following
}

// iface is an interface. Its kind is the driver: veth, bridge, vxlan.
type iface struct{ name, kind string }

// NewInterfaces returns an Interfaces, which the caller closes after the last lookup.
func NewInterfaces() (*Interfaces, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket for interface lookups: %w", err)
	}
	return &Interfaces{fd: fd}, nil
}

// Name returns the name of the interface with that index, empty if there is none. It may ask the kernel, and block.
func (i *Interfaces) Name(index int) string {
	if name, known := i.NameKnown(index); known {
		return name
	}
	request, err := unix.NewIfreq("")
	if err != nil {
		return ""
	}
	request.SetUint32(uint32(index))
	if unix.IoctlIfreq(i.fd, unix.SIOCGIFNAME, request) != nil {
		return ""
	}
	return request.Name()
}

// NameKnown is Name without asking the kernel: it never blocks, and the name may not be known.
func (i *Interfaces) NameKnown(index int) (name string, known bool) {
	if index <= 0 {
		return "", true
	}
	d, known := i.find(index)
	return d.name, known
}

func (i *Interfaces) find(index int) (found iface, known bool) {
	all := i.known.Load()
	if all == nil {
		return iface{}, false
	}
	found, known = (*all)[index]
	return found, known
}

// Run follows the interfaces until ctx ends. If that fails it calls failed, and tries again every 5 s; meanwhile each
// lookup asks the kernel.
func (i *Interfaces) Run(ctx context.Context, failed func(error)) error {
	return again(ctx, failed, func() error {
		defer i.known.Store(nil)
		return followRoutes(ctx, []uint{unix.RTNLGRP_LINK}, i.list, i.update)
	})
}

func (i *Interfaces) list() error {
	links, err := rtnl.Links()
	if err != nil {
		return err
	}
	all := make(map[int]iface, len(links))
	for _, l := range links {
		all[l.Attrs().Index] = iface{l.Attrs().Name, l.Type()}
	}
	i.known.Store(&all)
	return nil
}

// update applies a message. Those of the family AF_BRIDGE are about ports of bridges, not interfaces.
func (i *Interfaces) update(m syscall.NetlinkMessage) {
	if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] != unix.AF_UNSPEC {
		return
	}
	index := int((*unix.IfInfomsg)(unsafe.Pointer(&m.Data[0])).Index)
	was, had := i.find(index)
	switch m.Header.Type {
	case unix.RTM_NEWLINK:
		l, err := netlink.LinkDeserialize(nil, m.Data)
		if err != nil {
			i.change(func(all map[int]iface) { delete(all, index) }) // lookups ask the kernel
			return
		}
		if now := (iface{l.Attrs().Name, l.Type()}); now != was || !had {
			i.change(func(all map[int]iface) { all[index] = now })
		}
	case unix.RTM_DELLINK:
		i.change(func(all map[int]iface) { delete(all, index) })
	}
}

func (i *Interfaces) change(edit func(map[int]iface)) {
	all := maps.Clone(*i.known.Load())
	edit(all)
	i.known.Store(&all)
}

// Close closes the socket of Name.
func (i *Interfaces) Close() { unix.Close(i.fd) }
