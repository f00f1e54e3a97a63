package splice

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// Pickers choose among the endpoints of each service.Scope; nil = there are none.
type Pickers [2]Picker

// setDefaults spares those who pick from asking for nil.
func (p *Pickers) setDefaults() {
	for i := range p {
		if p[i] == nil {
			p[i] = nobody{}
		}
	}
}

// nobody picks none.
type nobody struct{}

func (nobody) Pick(netip.Addr, []netip.AddrPort) (netip.AddrPort, string, bool) {
	return netip.AddrPort{}, "", false
}

// scope is which endpoints the client of a frontend of that kind may be led to. Depends: those of the cluster if the client
// is inside, since an external traffic policy Local is for clients from outside.
func (p *plan) scope(kind service.Kind) (s service.Scope, depends bool) {
	s = p.scopes[kind]
	return s, s == service.NodeScope && kind != service.ClusterIP
}

// arrivedBy is the index of the interface that an accepted connection came in by, 0 when the kernel does not say. The
// kernel notes it for replies of multicast senders, which a connection has no use for.
func arrivedBy(fd int, ipv6 bool) int {
	if ipv6 {
		index, err := unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF)
		if err != nil {
			return 0
		}
		return index
	}
	if sysSetInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1) != 0 {
		return 0
	}
	var b [pktinfo4Space]byte
	size := uint32(len(b))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_IP, unix.IP_PKTOPTIONS,
		uintptr(unsafe.Pointer(&b)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return 0
	}
	_, index := pktinfo(b[:size])
	return int(index)
}
