package splicetest

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func udpPortScenarios() []scenario {
	return []scenario{
		{name: "HostKeepsUDPPorts", run: hostKeepsUDPPorts, scope: network},
		{name: "NoPortForSession", run: noPortForSession, scope: network, needs: LocalPorts},
	}
}

// fewUDPPorts leaves the node a number of ports.
const fewUDPPorts = 400

func (c *cluster) scarceUDPPorts() {
	c.Helper()
	c.node.Must(func() error { return netnstest.Sysctl("net/ipv4/ip_local_port_range", "30000 30399") })
}

// flood has clients begin sessions at some service ports of the node.
func (c *cluster) flood(ports []uint16, each int) {
	c.Helper()
	c.client.Must(func() error {
		for _, port := range ports {
			for range each {
				conn, err := net.Dial("udp", netip.AddrPortFrom(towardClient[inet.IPv4], port).String())
				if err != nil {
					return err
				}
				conn.Write([]byte("x"))
				conn.Close()
			}
		}
		return nil
	})
}

// eightPorts opens service ports on the node.
func (c *cluster) eightPorts(d *dataPath) (ports []uint16) {
	c.Helper()
	pod := c.whoami(c.pod, inet.UDP, podAddrs[inet.IPv4])
	for range 8 {
		ports = append(ports, expose(d, service.Port{}, inet.UDP, inet.IPv4, toOne(pod)))
	}
	return ports
}

// hostKeepsUDPPorts: however many sessions clients begin, the host itself has ports left.
func hostKeepsUDPPorts(t *trial) {
	c := newCluster(t)
	c.scarceUDPPorts()
	d := t.start(splice.Options{Account: quota.NewAccount(quota.Budget{Sessions: fewUDPPorts / 2})})
	ports := c.eightPorts(d)
	for range 3 {
		c.flood(ports, 100)
	}
	for range fewUDPPorts / 4 {
		dialUDP(t, netip.AddrPortFrom(podAddrs[inet.IPv4], 8080))
	}
	for _, port := range ports {
		if _, err := seenFrom(c.client, inet.UDP, netip.AddrPortFrom(towardClient[inet.IPv4], port)); err != nil {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

// noPortForSession: a host without a free port is a shortage like the others.
func noPortForSession(t *trial) {
	c := newCluster(t)
	c.scarceUDPPorts()
	var reports atomic.Int64
	d := t.start(splice.Options{Warn: func(err error) {
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EADDRNOTAVAIL) {
			reports.Add(1)
		}
	}})
	c.flood(c.eightPorts(d), 100)
	if rec := d.record(); rec.Outcome != record.OutcomeResources || reports.Load() == 0 {
		t.Errorf("record %+v, %d reports", rec, reports.Load())
	}
}
