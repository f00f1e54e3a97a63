package splicetest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

// cluster is a client and a pod, each behind a link of its own to the node. The node is the network of this process: a
// data path that runs here runs on the node.
type cluster struct {
	*trial
	client, node, pod *netnstest.Namespace
}

// pair is an address of either family, by inet.Family.
type pair [2]netip.Addr

var (
	clientAddrs  = pairOf("192.0.2.2", "fd00:1::2")
	towardClient = pairOf("192.0.2.1", "fd00:1::1") // the node's addresses on the link to the client
	towardPod    = pairOf("10.1.1.1", "fd00:2::1")
	podAddrs     = pairOf("10.1.1.2", "fd00:2::2")
)

func pairOf(v4, v6 string) pair { return pair{netip.MustParseAddr(v4), netip.MustParseAddr(v6)} }

// nets has the addresses with the size of their networks.
func (p pair) nets() []string { return []string{p[0].String() + "/24", p[1].String() + "/64"} }

func newCluster(t *trial) *cluster {
	t.Helper()
	c := &cluster{trial: t, client: netnstest.New(t), node: netnstest.Process(t), pod: netnstest.New(t)}
	netnstest.Link(c.client, c.node, "eth0", "client0", clientAddrs.nets(), towardClient.nets())
	netnstest.Link(c.pod, c.node, "eth0", "pod0", podAddrs.nets(), towardPod.nets())
	for ns, via := range map[*netnstest.Namespace]pair{c.client: towardClient, c.pod: towardPod} {
		ns.Must(func() error { return netnstest.RouteAll(via[0].String(), via[1].String()) })
	}
	return c
}

// run runs commands on the node.
func (c *cluster) run(commands ...string) {
	c.Helper()
	for _, command := range commands {
		words := strings.Fields(command)
		if _, err := exec.LookPath(words[0]); err != nil {
			netnstest.Missing(c, "needs the command %s: %v", words[0], err)
		}
		if out, err := exec.CommandContext(c.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
			c.Fatalf("%s: %v: %s", command, err, out)
		}
	}
}

// expose opens a front at the same port of every address of the node.
func expose(d *dataPath,
	p service.Port, protocol inet.Protocol, family inet.Family, pickers splice.Pickers,
) (port uint16) {
	d.t.Helper()
	return d.serve(serving{
		port: p, protocol: protocol, host: family.Unspecified().String(), kind: service.NodePort, pickers: &pickers,
	}).at.Port()
}

// toOne picks one endpoint alone.
func toOne(endpoint netip.AddrPort) splice.Pickers {
	return splice.Pickers{service.ClusterScope: &ring{list: []netip.AddrPort{endpoint}}}
}

// whoami runs a server that answers each client with the address it sees.
func (c *cluster) whoami(ns *netnstest.Namespace, protocol inet.Protocol, at netip.Addr) netip.AddrPort {
	c.Helper()
	addr := netip.AddrPortFrom(at, 8080)
	ns.Must(func() error {
		if protocol == inet.UDP {
			pc, err := net.ListenPacket("udp", addr.String())
			if err == nil {
				c.Cleanup(func() { pc.Close() })
				go answerDatagrams(pc)
			}
			return err
		}
		return c.listen(addr, func(conn *net.TCPConn) { conn.Write([]byte(conn.RemoteAddr().String())) })
	})
	return addr
}

// listen runs a server in the namespace of the calling thread.
func (t *trial) listen(at netip.AddrPort, handle func(*net.TCPConn)) error {
	ln, err := net.Listen("tcp", at.String())
	if err != nil {
		return err
	}
	t.Cleanup(func() { ln.Close() })
	go accept(ln, handle)
	return nil
}

func answerDatagrams(pc net.PacketConn) {
	buf := make([]byte, 100)
	for {
		_, from, err := pc.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			pc.WriteTo([]byte(from.String()), from)
		}
	}
}

// seenFrom dials from a namespace and returns the address that the server saw.
func seenFrom(ns *netnstest.Namespace, protocol inet.Protocol, to netip.AddrPort) (netip.Addr, error) {
	var seen netip.AddrPort
	err := ns.Do(func() error {
		c, err := net.Dial(protocol.String(), to.String())
		if err != nil {
			return err
		}
		defer c.Close()
		answer, err := firstWords(c, protocol)
		if err != nil {
			return fmt.Errorf("wait for an answer: %w", err)
		}
		seen, err = netip.ParseAddrPort(answer)
		return err
	})
	return seen.Addr(), err
}

// firstWords returns what a whoami says first. Datagrams may be lost on the way, and are sent again.
func firstWords(c net.Conn, protocol inet.Protocol) (answer string, err error) {
	const each, times = 2 * time.Second, int(longest / (2 * time.Second))
	buf := make([]byte, 100)
	for range times {
		c.SetDeadline(time.Now().Add(each)) // also for the write: an old deadline lets nothing be sent
		if protocol == inet.UDP {
			c.Write([]byte("who am I?"))
		}
		var n int
		if n, err = c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			return string(buf[:n]), err
		}
	}
	return "", err
}

// eachProtocol runs a part for each protocol and family.
func eachProtocol(run func(protocol inet.Protocol, family inet.Family)) {
	for _, family := range inet.Families() {
		for _, protocol := range []inet.Protocol{inet.TCP, inet.UDP} {
			run(protocol, family)
		}
	}
}
