package iptables

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
)

// The daemon dials an endpoint from a client's own address, and has the answers.
func TestTransparent(t *testing.T) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) {
			o := testOptions(nil, variant)
			divert := platform.DefaultDivert()
			o.Mark = divert.Mark
			s := portaltest.NewSite(t, func() (portal.Writer, error) { return New(t.Context(), o) })
			pod := s.Pod("pod1", prefixes("10.244.0.2/24", "fd00:244::2/64"), prefixes("10.244.0.1/24", "fd00:244::1/64"))
			s.Node.Must(func() error { return strictPaths("eth0", "pod1") })
			s.Write(portaltest.SitePortals())

			pairs := []struct{ client, endpoint string }{
				{clientV4, "10.244.0.2"}, {clientV6, "fd00:244::2"}, // a stranger to a pod here
				{"10.244.0.2", clientV4}, {"fd00:244::2", clientV6}, // a pod here to a pod elsewhere
			}
			for _, at := range []struct {
				ns   *netnstest.Namespace
				addr string
			}{{pod, "10.244.0.2"}, {pod, "fd00:244::2"}, {s.Client, clientV4}, {s.Client, clientV6}} {
				at.ns.Must(func() error { return witness(t, at.addr) })
			}
			expect := func(when, want string) {
				t.Helper()
				for _, pair := range pairs {
					for _, network := range []string{"tcp", "udp"} {
						seen := want
						if want == "" {
							seen = pair.client
						}
						if got := askAs(s.Node, network, pair.client, pair.endpoint); got != seen {
							t.Errorf("%s: %s from %s: the endpoint %s saw %s, want %s", when, network, pair.client, pair.endpoint, got, seen)
						}
					}
				}
			}
			s.Node.Must(func() error { return errors.Join(divert.Add(inet.IPv4), divert.Add(inet.IPv6)) })
			expect("with rules and routes", "")
			s.Node.Must(func() error { return netnstest.Sysctl("net/ipv4/conf/all/src_valid_mark", "1") })
			expect("where marks count for the reverse path", "")
			s.Node.Must(func() error {
				interfaces, err := platform.NewInterfaces()
				if err != nil {
					return err
				}
				defer interfaces.Close()
				paths, err := platform.NewPaths(interfaces)
				if err != nil {
					return err
				}
				defer paths.Close()
				for _, pair := range pairs {
					if !paths.Returns(netip.MustParseAddr(pair.client), netip.MustParseAddr(pair.endpoint), 0) {
						err = errors.Join(err, fmt.Errorf("answers of %s to %s are said to go elsewhere", pair.endpoint, pair.client))
					}
				}
				return err
			})
			s.Node.Must(func() error { return errors.Join(divert.Remove(inet.IPv4), divert.Remove(inet.IPv6)) })
			pairs = pairs[:1]
			expect("without routes", "timeout")
		})
	})
}

// strictPaths has this namespace drop what comes in by another device than answers would leave by.
func strictPaths(devices ...string) error {
	var errs []error
	for _, device := range append(devices, "all") {
		errs = append(errs, netnstest.Sysctl("net/ipv4/conf/"+device+"/rp_filter", "1"))
	}
	return errors.Join(errs...)
}

const witnessPort = 8080

// witness tells each TCP client, and each datagram's sender, who it thinks that is.
func witness(t *testing.T, addr string) error {
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(addr), Port: witnessPort})
	if err != nil {
		return err
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(addr), Port: witnessPort})
	if err != nil {
		tcp.Close()
		return err
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, conn.RemoteAddr().String())
			conn.Close()
		}
	})
	ended.Go(func() {
		for buf := make([]byte, 64); ; {
			_, from, err := udp.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				udp.WriteTo([]byte(from.String()), from)
			}
		}
	})
	t.Cleanup(func() {
		tcp.Close()
		udp.Close()
		ended.Wait()
	})
	return nil
}

// askAs asks a witness, from an address that is not this host's, and returns the client that it saw, or an error.
func askAs(from *netnstest.Namespace, network, client, endpoint string) string {
	dialer := net.Dialer{Timeout: time.Second, Control: transparent, LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	if network == "udp" {
		dialer.LocalAddr = &net.UDPAddr{IP: net.ParseIP(client)}
	}
	var seen string
	err := from.Do(func() error {
		conn, err := dialer.Dial(network, net.JoinHostPort(endpoint, fmt.Sprint(witnessPort)))
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Second))
		if _, err := io.WriteString(conn, "who am I?"); err != nil {
			return err
		}
		buf := make([]byte, 64)
		n, err := conn.Read(buf)
		seen = string(buf[:n])
		if err == nil && seen != conn.LocalAddr().String() {
			return fmt.Errorf("%s took me for %s", conn.LocalAddr(), seen)
		}
		return err
	})
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	} else if err != nil {
		return err.Error()
	}
	host, _, _ := net.SplitHostPort(seen)
	return host
}

func transparent(network, _ string, raw syscall.RawConn) error {
	level, name := unix.SOL_IP, unix.IP_TRANSPARENT
	if strings.HasSuffix(network, "6") {
		level, name = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	var err error
	if failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, name, 1) }); failed != nil {
		return failed
	}
	return err
}
