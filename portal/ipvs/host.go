package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// sysctls are the settings that IPVS needs: its flows are in the conntrack table, without which they cannot be
// masqueraded; clients of a removed endpoint get another one; and persistence ends at one that drains.
var sysctls = [][2]string{
	{"net/ipv4/ip_forward", "1"},
	{"net/ipv4/vs/conntrack", "1"},
	{"net/ipv4/vs/expire_nodest_conn", "1"},
	{"net/ipv4/vs/expire_quiescent_template", "1"},
}

// connReuse is for kernels that have the setting and, by its default, drop the first SYN from a client's port that
// comes again soon, which costs a second. Since Linux 5.9 they do not, and the setting is the operator's; kube-proxy
// draws the same line.
var (
	connReuse      = [2]string{"net/ipv4/vs/conn_reuse_mode", "0"}
	connReuseFirst = platform.KernelVersion{4, 1}
	connReuseFixed = platform.KernelVersion{5, 9}
)

// sysctls are all that this host is to have.
func (w *Writer) sysctls() [][2]string {
	out := slices.Clone(sysctls)
	if v := w.version(); !v.Before(connReuseFirst) && v.Before(connReuseFixed) {
		out = append(out, connReuse)
	}
	if w.StrictARP {
		out = append(out, strictARP...)
	}
	return out
}

// eachOf sets them by set, and returns the errors.
func eachOf(all [][2]string, set func(name, value string) error) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, set(s[0], s[1]))
	}
	return errors.Join(errs...)
}

// advised adds to an error of sysctls what to do.
func advised(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; write them on the node (sysctl -w NAME=VALUE), or have an init container with all rights run "+
		"portald --init-only", err)
}

var strictARP = [][2]string{
	{"net/ipv4/conf/all/arp_ignore", "1"},
	{"net/ipv4/conf/all/arp_announce", "2"},
}

// prepare makes what virtual servers need and is not there: kernel settings, the device, and all sets, which rules look
// into.
func (w *Writer) prepare() error {
	var errs []error
	errs = append(errs, advised(eachOf(w.sysctls(), w.sysctl)))
	if w.TCPTimeout+w.TCPFinTimeout+w.UDPTimeout > 0 {
		errs = append(errs, w.timeouts(w.TCPTimeout, w.TCPFinTimeout, w.UDPTimeout))
	}
	errs = append(errs, w.makeDevice())
	for _, s := range w.names.allSets() {
		if s.family == inet.IPv4 || w.v6 {
			errs = append(errs, w.makeSet(s))
		}
	}
	return errors.Join(errs...)
}

// readHost reads the addresses of the host, of our device, and our sets.
func (w *Writer) readHost() error {
	device, others, err := w.hostAddresses()
	if err != nil {
		return err
	}
	w.adopt(others)
	for _, a := range device {
		w.addrs.MarkInstalled(a)
	}
	for _, s := range w.names.sets() {
		elements, _, err := w.elementsOf(s)
		if err != nil {
			return err
		}
		for _, e := range elements {
			w.elements.MarkInstalled(entry{s.id, s.family, e})
		}
	}
	return nil
}

// adopt makes the Settings take effect on a node with these addresses.
func (w *Writer) adopt(host []netip.Addr) {
	s := w.live.Settings()
	w.node = newLocalNode(host, s.NodePortAddresses)
	w.node.masquerade = w.Masquerade
	w.node.podsKnown = s.LocalDetector.PodsKnown()
}

// readServers reads the virtual servers that are ours, by a set or an address of the device, or that are wanted,
// which must be known by then. Others in ExcludeCIDRs are noted, and left alone.
func (w *Writer) readServers() error {
	all, err := w.virtualServers()
	if err != nil {
		return err
	}
	for f, set := range all {
		excluded := len(w.ExcludeCIDRs) > 0 && contained(f.Addr.Addr(), w.ExcludeCIDRs)
		_, wanted := w.wanted(f)
		switch {
		case w.elements.WasInstalled(atFrontend(served, f)) || !excluded && (wanted || w.addrs.WasInstalled(f.Addr.Addr())):
			if err := w.readServer(f, set); err != nil {
				return err
			}
			w.countServer(f, 1)
		case excluded:
			w.excluded[f] = true
			if wanted {
				w.Log("%s is not served by IPVS: a virtual server of others has it", f)
			}
		}
	}
	return nil
}

func (w *Writer) readServer(f service.Frontend, set settings) error {
	installed, err := w.destinations(f)
	if err != nil {
		return err
	}
	s := &server{settings: set, weights: make(map[netip.AddrPort]int, len(installed))}
	for _, d := range installed {
		s.weights[d.addr] = d.weight
	}
	w.servers[f] = s
	return nil
}
