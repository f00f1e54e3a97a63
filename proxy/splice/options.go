package splice

import (
	"net/netip"
	"runtime"
	"time"

	"github.com/portald/portald/proxy/service"
)

// Options of an Engine. Zero values mean the defaults that each field names.
type Options struct {
	Loops           int             // event loops, each of which keeps one of GOMAXPROCS busy or nearly so; default one less
	ConnectTimeouts []time.Duration // one dial attempt each; default DefaultConnectTimeouts
	HalfClose       time.Duration   // silence after one direction ended; default DefaultHalfClose
	Idle            time.Duration   // silence of an open TCP connection; default 0 = no limit
	UDPIdle         time.Duration   // silence of a UDP session; default DefaultUDPIdle
	UDPSessions     int             // sessions one UDP front may hold; default DefaultUDPSessions
	Descriptors     int             // sockets the engine may hold open; default no limit

	// Observe returns who is told of the connections of a service port, when a front of it is opened. Default nobody.
	Observe func(service.PortName) Observer
	// Trouble is told of a shortage (descriptors, memory) that the engine survived. It must not block, and may be
	// called often. Default none.
	Trouble func(error)
	// OriginalDst tells what address a translated TCP connection was dialled to; an error means that it was not
	// translated. Default: nothing is translated.
	OriginalDst func(fd int, ipv6 bool) (netip.AddrPort, error)
	// OriginalDstUDP tells the same of a UDP flow from client to local.
	OriginalDstUDP func(client, local netip.AddrPort) (netip.AddrPort, error)
}

// DefaultConnectTimeouts are those of the original userspace proxy.
func DefaultConnectTimeouts() []time.Duration {
	return []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}
}

// The defaults. The half-close timeout is kube-proxy's tcpCloseWaitTimeout; the UDP idle timeout lies between those of
// the kernel for a flow without an answer (30 s) and for a stream (120 s).
const (
	DefaultHalfClose   = time.Hour
	DefaultUDPIdle     = 60 * time.Second
	DefaultUDPSessions = 4096
)

func (o *Options) setDefaults() {
	if o.Loops == 0 {
		o.Loops = max(1, runtime.GOMAXPROCS(0)-1)
	}
	if len(o.ConnectTimeouts) == 0 {
		o.ConnectTimeouts = DefaultConnectTimeouts()
	}
	if o.HalfClose == 0 {
		o.HalfClose = DefaultHalfClose
	}
	if o.UDPIdle == 0 {
		o.UDPIdle = DefaultUDPIdle
	}
	if o.UDPSessions == 0 {
		o.UDPSessions = DefaultUDPSessions
	}
	if o.Observe == nil {
		o.Observe = func(service.PortName) Observer { return ObserverFunc(func(*Record) {}) }
	}
	if o.Trouble == nil {
		o.Trouble = func(error) {}
	}
}
