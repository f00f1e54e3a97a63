package topology

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"

	"github.com/vishvananda/netns"
)

const most = 200 // hosts on one side of a node

// New creates a network and waits until its links are up: about 10 ms per host. After an error, what was created is
// removed.
func New(ctx context.Context, o Options) (*Net, error) { return newNet(ctx, o, 0) }

func newNet(ctx context.Context, o Options, number int) (*Net, error) {
	if err := Check(); err != nil {
		return nil, err
	}
	o.Clients = max(o.Clients, 1)
	if o.Clients > most || o.Pods > most {
		return nil, fmt.Errorf("make a network of %d clients and %d pods: at most %d of each", o.Clients, o.Pods, most)
	}
	n := plan(o, number)
	if err := n.build(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("make network: %w", err), n.Close())
	}
	return n, nil
}

// plan assigns names and consecutive addresses to the hosts.
func plan(o Options, number int) *Net {
	n := &Net{}
	n.lan, n.podLAN = sides(number)
	v4, v6 := n.lan.gateway()
	n.Node = o.host("node", v4, v6)
	n.clients = o.hosts("client", o.Clients, n.lan)
	n.pods = o.hosts("pod", o.Pods, n.podLAN)
	return n
}

func (o Options) hosts(kind string, count int, s side) []*Host {
	v4, v6 := s.gateway()
	var hosts []*Host
	for i := range count {
		v4, v6 = v4.Next(), v6.Next()
		hosts = append(hosts, o.host(fmt.Sprint(kind, i), v4, v6))
	}
	return hosts
}

func (o Options) host(name string, v4, v6 netip.Addr) *Host {
	h := &Host{Name: o.Name + name, IPv4: v4}
	if o.IPv6 {
		h.IPv6 = v6
	}
	return h
}

func (n *Net) build(ctx context.Context, o Options) error {
	for _, h := range slices.Concat([]*Host{n.Node}, n.clients, n.pods) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := h.make(o.IPv6); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
		n.made = append(n.made, h)
	}
	if err := n.forward(o.IPv6); err != nil {
		return err
	}
	return errors.Join(n.Node.linkAll("client", n.clients, n.lan), n.Node.linkAll("pod", n.pods, n.podLAN))
}

// forward enables IP forwarding on the node.
func (n *Net) forward(ipv6 bool) error {
	if err := n.Node.Sysctl("ipv4/ip_forward", "1"); err != nil || !ipv6 {
		return err
	}
	return n.Node.Sysctl("ipv6/conf/all/forwarding", "1")
}

// make creates the named namespace and brings its loopback interface up.
func (h *Host) make(ipv6 bool) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: creating the namespace moves the thread into it
		done <- h.makeHere(ipv6)
	}()
	return <-done
}

func (h *Host) makeHere(ipv6 bool) error {
	ns, err := netns.NewNamed(h.Name)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := settings(ipv6); err != nil {
		return err
	}
	return setUp("lo")
}

// settings undo what a host may hand down to new namespaces. Duplicate address detection is off: it takes a second.
//
// Every kernel has the congestion control reno. BBR limits a veth pair to about 10 Gb/s. It also takes the pace of a
// receiver that stood still, since a test has stopped or killed it, for that of the path: it then sends the last
// megabytes at some kB/s, for minutes.
func settings(ipv6 bool) error {
	set := [][2]string{
		{"ipv4/conf/all/rp_filter", "0"}, {"ipv4/conf/default/rp_filter", "0"}, {"ipv4/tcp_congestion_control", "reno"},
	}
	if ipv6 {
		set = append(set, [][2]string{
			{"ipv6/conf/all/disable_ipv6", "0"}, {"ipv6/conf/default/disable_ipv6", "0"}, {"ipv6/conf/lo/disable_ipv6", "0"},
			{"ipv6/conf/all/accept_dad", "0"}, {"ipv6/conf/default/accept_dad", "0"}, {"ipv6/conf/default/accept_ra", "0"},
		}...)
	}
	for _, s := range set {
		if err := writeSysctl(s[0], s[1]); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the network. Processes that still run in it keep their namespace until they end.
func (n *Net) Close() error {
	var errs []error
	for _, h := range n.made {
		if err := netns.DeleteNamed(h.Name); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("delete namespace %s: %w", h.Name, err))
		}
	}
	n.made = nil
	return errors.Join(errs...)
}
