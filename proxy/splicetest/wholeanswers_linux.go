package splicetest

import (
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

func wholeAnswerNetworkScenarios() []scenario {
	return []scenario{{name: "WholeAnswersOverNetwork", run: wholeAnswersOverNetwork, needs: Delivers, scope: network}}
}

// wholeAnswersOverNetwork is the same between hosts, whose segments are smaller than the loopback interface's.
func wholeAnswersOverNetwork(t *trial) {
	c := newCluster(t)
	c.run("sysctl -qw net.ipv4.ip_forward=1")
	t.partings(&ground{
		listen: func(l *net.ListenConfig) (ln net.Listener, err error) {
			failed := c.pod.Do(func() error {
				ln, err = l.Listen(t.Context(), "tcp", netip.AddrPortFrom(podAddrs[inet.IPv4], 0).String())
				return err
			})
			return ln, failed
		},
		dial: func(d *net.Dialer, to string) (conn net.Conn, err error) {
			failed := c.client.Do(func() error {
				conn, err = d.Dial("tcp", to)
				return err
			})
			return conn, failed
		},
		front: func(d *dataPath, at netip.AddrPort) netip.AddrPort {
			port := expose(d, service.Port{}, inet.TCP, inet.IPv4, toOne(at))
			return netip.AddrPortFrom(towardClient[inet.IPv4], port)
		},
	}, parting{waits: true}, anySize...)
}

// awaitSent returns when the peer has acknowledged all that was sent.
func awaitSent(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var left int
		_ = raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
		if err != nil || left == 0 {
			return
		}
	}
}
