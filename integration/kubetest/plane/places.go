package plane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
)

// place has the addresses at which the programs of a control plane listen.
type place struct {
	apiserver, etcd, peer, controllers netip.AddrPort
}

func (p place) url() string { return "https://" + p.apiserver.String() }

// places chooses ports that are free. Only the API server is to be had from elsewhere.
func places(o Options) (place, error) {
	loopback := netip.MustParseAddr("127.0.0.1")
	at := place{apiserver: netip.AddrPortFrom(o.Address, o.Port)}
	for _, free := range []struct {
		at   *netip.AddrPort
		addr netip.Addr
	}{{&at.apiserver, o.Address}, {&at.etcd, loopback}, {&at.peer, loopback}, {&at.controllers, loopback}} {
		if free.at.Port() != 0 {
			continue
		}
		l, err := listenSomewhere(free.addr)
		if err != nil {
			return at, err
		}
		defer l.Close() // when all are chosen, and so differ
		*free.at = l.Addr().(*net.TCPAddr).AddrPort()
	}
	return at, nil
}

// The range is below the ports that the kernel gives to clients, so that a program which comes back finds its port
// free, and below node ports.
const firstPort, lastPort = 20000, 29999

func listenSomewhere(addr netip.Addr) (l net.Listener, err error) {
	for range 100 {
		port := uint16(firstPort + rand.IntN(lastPort-firstPort+1))
		if l, err = net.Listen("tcp", netip.AddrPortFrom(addr, port).String()); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("find a free port: %w", err)
}
