package topology

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Cluster is several networks whose nodes are linked to each other and to a shared control host. All hosts can reach
// each other; the nodes route between networks without NAT.
type Cluster struct {
	Control *Host
	Nets    []*Net
	made    bool // Control
}

const (
	mostNodes = 20

	control4, control6 = "192.168.40.1", "fd00:192:168:40::1"
)

// NewCluster creates a network with these options for each node, and the links. Host names contain the node's number
// after the options' name: "0-node". After an error, what was created is removed.
func NewCluster(ctx context.Context, nodes int, o Options) (*Cluster, error) {
	if nodes < 1 || nodes > mostNodes {
		return nil, fmt.Errorf("make a cluster of %d nodes: between 1 and %d", nodes, mostNodes)
	}
	c := &Cluster{Control: o.host("control", netip.MustParseAddr(control4), netip.MustParseAddr(control6))}
	if err := c.build(ctx, nodes, o); err != nil {
		return nil, errors.Join(fmt.Errorf("make cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) build(ctx context.Context, nodes int, o Options) error {
	for i := range nodes {
		each := o
		each.Name = fmt.Sprintf("%s%d-", o.Name, i)
		n, err := newNet(ctx, each, i)
		if err != nil {
			return err
		}
		c.Nets = append(c.Nets, n)
	}
	if err := c.Control.make(o.IPv6); err != nil {
		return fmt.Errorf("host %s: %w", c.Control.Name, err)
	}
	c.made = true
	for i, n := range c.Nets {
		if err := c.join(i, n); err != nil {
			return fmt.Errorf("join %s: %w", n.Node.Name, err)
		}
	}
	return nil
}

// join links a node to the control host and to the nodes before it.
func (c *Cluster) join(number int, n *Net) error {
	name := fmt.Sprint("node", number)
	if err := trunk(n.Node, "control", nil, c.Control, name, n.behind()); err != nil {
		return err
	}
	for i, before := range c.Nets[:number] {
		if err := trunk(n.Node, fmt.Sprint("node", i), before.behind(), before.Node, name, n.behind()); err != nil {
			return err
		}
	}
	return nil
}

// behind lists the address ranges that are routed through the node.
func (n *Net) behind() []netip.Prefix {
	all := []netip.Prefix{n.lan.v4, n.podLAN.v4}
	if n.Node.IPv6.IsValid() {
		all = append(all, n.lan.v6, n.podLAN.v6)
	}
	return all
}

// trunk links two hosts by a veth pair and routes to each the ranges behind the other.
func trunk(a *Host, aName string, behindB []netip.Prefix, b *Host, bName string, behindA []netip.Prefix) error {
	if err := a.cable(aName, b, bName); err != nil {
		return err
	}
	if err := a.trunkEnd(aName, b, behindB); err != nil {
		return err
	}
	if err := b.trunkEnd(bName, a, behindA); err != nil {
		return err
	}
	return carry(a, aName, b, bName)
}

func (h *Host) trunkEnd(name string, other *Host, behind []netip.Prefix) error {
	return h.Do(func() error {
		there := []netip.Addr{other.IPv4, other.IPv6}
		if err := attach(name, []netip.Addr{h.IPv4, h.IPv6}, there, false); err != nil {
			return err
		}
		return routeBy(name, there, behind)
	})
}

// routeBy adds routes to the ranges with a neighbour as gateway, at its address of the same family.
func routeBy(name string, neighbour []netip.Addr, ranges []netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		gw := neighbour[0]
		if r.Addr().Is6() {
			gw = neighbour[1]
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(r),
			Gw: gw.AsSlice()}); err != nil {
			return fmt.Errorf("add route to %s by %s: %w", r, gw, err)
		}
	}
	return nil
}

// Close removes the cluster, as Net.Close does.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.Nets {
		errs = append(errs, n.Close())
	}
	if c.made {
		errs = append(errs, netns.DeleteNamed(c.Control.Name))
	}
	c.Nets, c.made = nil, false
	return errors.Join(errs...)
}
