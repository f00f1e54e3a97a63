package hns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const balancers kind = "LoadBalancer"

// LoadBalancer is a load balancer of the virtual switch. kube-proxy makes one for each frontend. The cmdlets call them
// policy lists.
type LoadBalancer struct {
	ID       string
	Ports    []PortMapping `json:"PortMappings"`
	Frontend []string      `json:"FrontendVIPs"` // empty: the addresses of the node
}

// PortMapping is a port of a load balancer.
type PortMapping struct {
	Protocol uint32 // its number in IP
	Port     uint16 `json:"ExternalPort"`
}

// Name is the protocol in small letters.
func (p PortMapping) Name() string {
	switch p.Protocol {
	case 6:
		return "tcp"
	case 17:
		return "udp"
	}
	return fmt.Sprintf("protocol %d", p.Protocol)
}

// Takes tells whether a load balancer takes what is sent to an address and port.
func (l LoadBalancer) Takes(protocol string, at netip.AddrPort) bool {
	if !l.has(at.Addr()) {
		return false
	}
	for _, p := range l.Ports {
		if p.Name() == protocol && p.Port == at.Port() {
			return true
		}
	}
	return false
}

// has tells whether a frontend is a load balancer's. An unspecified address stands for those of the node.
func (l LoadBalancer) has(a netip.Addr) bool {
	if len(l.Frontend) == 0 {
		return a.IsUnspecified()
	}
	for _, own := range l.Frontend {
		if addr, err := netip.ParseAddr(own); err == nil && addr == a {
			return true
		}
	}
	return false
}

func (l LoadBalancer) String() string {
	var at []string
	for _, p := range l.Ports {
		port := strconv.Itoa(int(p.Port))
		for _, a := range l.Frontend {
			at = append(at, p.Name()+" "+net.JoinHostPort(a, port))
		}
		if len(l.Frontend) == 0 {
			at = append(at, p.Name()+" port "+port+" of the node")
		}
	}
	return fmt.Sprintf("%s (%s)", l.ID, strings.Join(at, ", "))
}

// LoadBalancers lists the load balancers of this host, as Networks lists networks.
func LoadBalancers(ctx context.Context) ([]LoadBalancer, error) {
	return within(ctx, func() ([]LoadBalancer, error) { return read[LoadBalancer](host{}, balancers) })
}
