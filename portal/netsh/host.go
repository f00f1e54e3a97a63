package netsh

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// host has the addresses of the host as the Writer last read them.
type host struct {
	device Interface
	addrs  map[netip.Addr]present
	others []netip.Addr // that are not ours: NodePorts may be served there
	v6     bool         // some interface speaks IPv6
}

// present is an address that the host has.
type present struct {
	state AddressState
	alone bool // on the device and without a subnet, as the Writer adds them
}

// errNoInterface is the error of a host without the interface.
var errNoInterface = errors.New("no such interface")

func newHost(all []Interface, device string) (host, error) {
	h := host{addrs: map[netip.Addr]present{}}
	found, there := find(all, device)
	if !there {
		return h, fmt.Errorf("interfaceName %q: %w on this host, which has %s", device, errNoInterface, names(all))
	}
	h.device = found
	for _, i := range all {
		for _, a := range i.Addresses {
			addr := a.Prefix.Addr().WithZone("")
			alone := i.Index == found.Index && a.Prefix.IsSingleIP()
			h.addrs[addr] = present{a.State, alone || h.addrs[addr].alone}
			h.v6 = h.v6 || addr.Is6()
		}
	}
	return h, nil
}

// find finds an interface by its name, in which Windows does not tell capital letters from small ones.
func find(all []Interface, name string) (Interface, bool) {
	i := slices.IndexFunc(all, func(i Interface) bool { return strings.EqualFold(i.Name, name) })
	if i < 0 {
		return Interface{}, false
	}
	return all[i], true
}

func names(all []Interface) string {
	var out []string
	for _, i := range all {
		out = append(out, strconv.Quote(i.Name))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// read reads the host's addresses, and notes which have changed.
func (w *Writer) read() error {
	all, err := w.Interfaces()
	if err != nil {
		return err
	}
	now, err := newHost(all, w.Interface)
	if err != nil {
		return err
	}
	before := w.host.addrs
	w.host = now
	for a, p := range now.addrs {
		if was, known := before[a]; !known || was != p {
			w.noteMoved(a)
		}
	}
	for a := range before {
		if _, there := now.addrs[a]; !there {
			w.noteMoved(a)
		}
	}
	w.listOthers()
	return nil
}

// listOthers spares NodePorts a look at each address of ours.
func (w *Writer) listOthers() {
	w.host.others = nil
	for a := range w.host.addrs {
		if x := w.addrs[a]; x == nil || !x.ours {
			w.host.others = append(w.host.others, a)
		}
	}
}

// noteMoved notes a change of an address. The sockets of one that is gone are of no use, even if it comes back; one
// that the host has otherwise now is not ours any more.
func (w *Writer) noteMoved(a netip.Addr) {
	w.moved[a] = struct{}{}
	x := w.addrs[a]
	p, there := w.host.addrs[a]
	if !there {
		for _, at := range w.socketsAt(a) {
			if s := w.sockets[at]; s != nil {
				s.lost = true
			}
		}
	}
	if there && x != nil && x.ours && !p.alone {
		x.ours, w.newer = false, true
		w.Log("Address %s was added by portald, and now is the host's own: it is not removed any more", a)
	}
}
