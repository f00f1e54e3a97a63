package splicetest

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

func burstScenarios() []scenario {
	return []scenario{
		{name: "UDPBurstsOverNetwork", run: func(t *trial) { newCluster(t).bursts() }, scope: network},
		{name: "UDPBurstsWithoutChecksums", run: udpBurstsWithoutChecksums, scope: network},
	}
}

// udpBurstsWithoutChecksums: the same by devices that cannot segment.
func udpBurstsWithoutChecksums(t *trial) {
	c := newCluster(t)
	for _, device := range []string{"client0", "pod0"} {
		c.node.Must(func() error { return computeNoChecksums(device) })
	}
	c.bursts()
}

// computeNoChecksums has the kernel compute checksums of what a device of the calling thread's namespace sends.
func computeNoChecksums(device string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	value := struct{ command, data uint32 }{command: unix.ETHTOOL_STXCSUM}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:], device)
	_, _, e := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if e != 0 {
		return e
	}
	return nil
}

// bursts: datagrams, some larger than the MTU, come from clients and go to a pod over links, and back.
func (c *cluster) bursts() {
	c.Helper()
	at := c.udpEcho(c.pod, podAddrs[inet.IPv4])
	d := c.start(splice.Options{})
	port := expose(d, service.Port{}, inet.UDP, inet.IPv4, toOne(at))
	c.client.Must(func() error {
		to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(towardClient[inet.IPv4], port))
		first, err := net.DialUDP("udp", nil, to)
		if err != nil {
			return err
		}
		defer first.Close()
		second, err := net.DialUDP("udp", nil, to)
		if err != nil {
			return err
		}
		defer second.Close()
		for range 20 {
			err = errors.Join(err, carriedBoth(burst(), first, second), segmentedByKernel(first))
		}
		return err
	})
}

// segmentedByKernel sends datagrams in one call, for the kernel to segment.
func segmentedByKernel(c *net.UDPConn) error {
	const size = 1200
	all := noiseOf(30*size + 7)
	control := make([]byte, unix.CmsgSpace(2))
	hdr := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	hdr.Level, hdr.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	hdr.SetLen(unix.CmsgLen(2))
	*(*uint16)(unsafe.Pointer(&control[unix.CmsgLen(0)])) = size
	if _, _, err := c.WriteMsgUDP(all, control, nil); err != nil {
		return err
	}
	return comeBack(c, slices.Collect(slices.Chunk(all, size)))
}

// udpEcho sends all datagrams back.
func (c *cluster) udpEcho(ns *netnstest.Namespace, at netip.Addr) netip.AddrPort {
	c.Helper()
	addr := netip.AddrPortFrom(at, 8080)
	ns.Must(func() error {
		pc, err := net.ListenPacket("udp", addr.String())
		if err != nil {
			return err
		}
		c.Cleanup(func() { pc.Close() })
		go func() {
			buf := make([]byte, mostDatagram)
			for {
				n, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				pc.WriteTo(buf[:n], from)
			}
		}()
		return nil
	})
	return addr
}
