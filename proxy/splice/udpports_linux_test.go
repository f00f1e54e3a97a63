package splice

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/portald/portald/proxy/service"
)

const nodePorts = 400 // of the node of these tests

// flood has clients begin sessions at some service ports of the node.
func (n *network) flood(ports []uint16, each int) {
	n.client.Must(func() error {
		for _, port := range ports {
			for range each {
				c, err := net.Dial("udp", netip.AddrPortFrom(towardClient[0], port).String())
				if err != nil {
					return err
				}
				c.Write([]byte("x"))
				c.Close()
			}
		}
		return nil
	})
}

func scarcePorts() error {
	return os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("30000 30399"), 0)
}

// udpPorts opens eight service ports on the node.
func (r *rig) udpPorts(t *testing.T, n *network) (ports []uint16) {
	list := []netip.AddrPort{whoami(t, n.pod, service.UDP, podAddrs[0])}
	for range 8 {
		ports = append(ports, r.expose(t, n.node, &service.Port{}, service.UDP, service.IPv4, Pickers{&ring{list: list}}))
	}
	return ports
}

// However many sessions clients begin, the host itself has ports left.
func TestHostHasPorts(t *testing.T) {
	n := newNetwork(t)
	n.node.Must(scarcePorts)
	r := newRigIn(t, n.node, Options{Account: NewAccount(Budget{Sessions: nodePorts / 2})}, nothing)
	ports := r.udpPorts(t, n)
	for range 3 {
		n.flood(ports, 100)
	}
	n.node.Must(func() error {
		for range nodePorts / 4 {
			c, err := net.Dial("udp", netip.AddrPortFrom(podAddrs[0], 8080).String())
			if err != nil {
				return err
			}
			defer c.Close()
		}
		return nil
	})
	for _, port := range ports {
		if _, err := askIn(n.client, service.UDP, netip.AddrPortFrom(towardClient[0], port)); err != nil {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

// A host without a free port is a shortage like the others.
func TestNoPortForSession(t *testing.T) {
	n := newNetwork(t)
	n.node.Must(scarcePorts)
	var told atomic.Int64
	r := newRigIn(t, n.node, Options{Trouble: func(err error) {
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EADDRNOTAVAIL) {
			told.Add(1)
		}
	}}, nothing)
	n.flood(r.udpPorts(t, n), 100)
	rec := r.record(t)
	if rec.Outcome != OutcomeResources || told.Load() == 0 {
		t.Errorf("record %+v, told %d times", rec, told.Load())
	}
}
