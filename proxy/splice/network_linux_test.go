package splice

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/proxy/service"
)

// network is a client and a pod, each behind a link of its own to this node.
type network struct {
	t                 testing.TB
	client, node, pod *portaltest.Namespace
}

var (
	clientAddrs  = family2("192.0.2.2", "fd00:1::2")
	towardClient = family2("192.0.2.1", "fd00:1::1") // the node's addresses on the link to the client
	towardPod    = family2("10.1.1.1", "fd00:2::1")
	podAddrs     = family2("10.1.1.2", "fd00:2::2")
)

func family2(v4, v6 string) [2]netip.Addr {
	return [2]netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}
}

// nets has the addresses with the size of their networks.
func nets(a [2]netip.Addr) []string { return []string{a[0].String() + "/24", a[1].String() + "/64"} }

func newNetwork(t testing.TB) *network {
	t.Helper()
	n := &network{t: t, client: portaltest.New(t), node: portaltest.New(t), pod: portaltest.New(t)}
	for _, ns := range []*portaltest.Namespace{n.client, n.node, n.pod} {
		ns.Must(noDAD)
	}
	portaltest.Link(n.client, n.node, "eth0", "client0", nets(clientAddrs), nets(towardClient))
	portaltest.Link(n.pod, n.node, "eth0", "pod0", nets(podAddrs), nets(towardPod))
	for ns, via := range map[*portaltest.Namespace][2]netip.Addr{n.client: towardClient, n.pod: towardPod} {
		n.run(ns, "ip route add default via "+via[0].String(), "ip -6 route add default via "+via[1].String())
	}
	return n
}

// noDAD has addresses be of use at once; duplicate address detection takes a second.
func noDAD() error {
	const conf = "/proc/sys/net/ipv6/conf/"
	return errors.Join(os.WriteFile(conf+"all/accept_dad", []byte("0"), 0), os.WriteFile(conf+"default/accept_dad", []byte("0"), 0))
}

// run runs commands in a namespace.
func (n *network) run(ns *portaltest.Namespace, commands ...string) {
	n.t.Helper()
	for _, c := range commands {
		words := strings.Fields(c)
		if _, err := exec.LookPath(words[0]); err != nil {
			portaltest.Missing(n.t, "needs the command %s: %v", words[0], err)
		}
		ns.Must(func() error {
			out, err := exec.CommandContext(n.t.Context(), words[0], words[1:]...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: %w: %s", c, err, out)
			}
			return nil
		})
	}
}

// newRigIn is newRig with the event loops in a namespace, each after prepare.
func newRigIn(t testing.TB, ns *portaltest.Namespace, opts Options, prepare func() error) *rig {
	t.Helper()
	r := &rig{records: make(chan *Record, 1<<16)}
	opts.Observe = func(service.PortName) Observer { return ObserverFunc(func(rec *Record) { r.records <- rec }) }
	c, err := New(opts, OpenEpoll(2))
	if err != nil {
		t.Fatal(err)
	}
	e := c.engine.(*epollEngine)
	r.Core, r.loops = c, e.loops
	var loops sync.WaitGroup
	stops := make([]bool, len(e.loops))
	for i, l := range e.loops {
		loops.Go(func() {
			err := ns.Do(func() error {
				if err := prepare(); err != nil {
					return err
				}
				l.run(&stops[i])
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	r.stop = sync.OnceFunc(func() {
		c.CutAll()
		for i, l := range e.loops {
			l.do(func() { stops[i] = true })
		}
		loops.Wait()
		e.closeLoops()
	})
	t.Cleanup(r.stop)
	return r
}

func nothing() error { return nil }

// expose opens a front in a namespace, at the same port of every address, for a port like that.
func (r *rig) expose(
	t testing.TB, ns *portaltest.Namespace, p *service.Port, protocol service.Protocol, family service.IPFamily, pickers Pickers,
) uint16 {
	t.Helper()
	any := netip.IPv4Unspecified()
	if family == service.IPv6 {
		any = netip.IPv6Unspecified()
	}
	at := netip.AddrPortFrom(any, uint16(21000+nextPort.Add(1)%8000))
	view := viewOf(at, protocol, nil)
	view.Port, view.Exposures[0].Kind = p, service.NodePort
	ns.Must(func() error {
		_, err := r.Open(service.PortName{Namespace: "shop", Name: "cart", Protocol: protocol}, pickers, view, at)
		return err
	})
	return at.Port()
}

// whoami runs a server that answers whoever speaks to it with the address it sees.
func whoami(t testing.TB, ns *portaltest.Namespace, protocol service.Protocol, at netip.Addr) netip.AddrPort {
	t.Helper()
	addr := net.JoinHostPort(at.String(), "8080")
	ns.Must(func() error {
		if protocol == service.UDP {
			pc, err := net.ListenPacket("udp", addr)
			if err == nil {
				t.Cleanup(func() { pc.Close() })
				go answerDatagrams(pc)
			}
			return err
		}
		ln, err := net.Listen("tcp", addr)
		if err == nil {
			t.Cleanup(func() { ln.Close() })
			go answerConnections(ln)
		}
		return err
	})
	return netip.MustParseAddrPort(addr)
}

func answerConnections(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		c.Write([]byte(c.RemoteAddr().String()))
		c.Close()
	}
}

func answerDatagrams(pc net.PacketConn) {
	buf := make([]byte, 100)
	for {
		_, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		pc.WriteTo([]byte(from.String()), from)
	}
}

// askIn dials from a namespace and returns the address that the server saw.
func askIn(ns *portaltest.Namespace, protocol service.Protocol, to netip.AddrPort) (netip.Addr, error) {
	var seen netip.AddrPort
	err := ns.Do(func() error {
		c, err := net.Dial(protocol.String(), to.String())
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		if protocol == service.UDP {
			c.Write([]byte("who am I?"))
		}
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		if err != nil {
			return err
		}
		seen, err = netip.ParseAddrPort(string(buf[:n]))
		return err
	})
	return seen.Addr(), err
}

var protocols = []service.Protocol{service.TCP, service.UDP}
