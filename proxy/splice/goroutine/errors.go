package goroutine

import (
	"errors"
	"net"
	"syscall"

	"github.com/portald/portald/proxy/splice"
)

// cause returns the errno within an error of package net, or the error itself.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// listenError is the cause of a listener's error; an address in use is syscall.EADDRINUSE on every system.
func listenError(err error) error {
	if is(err, wsaAddrInUse) {
		return syscall.EADDRINUSE
	}
	return cause(err)
}

// deadlinePassed tells whether a deadline set by this package passed; ETIMEDOUT of the kernel is another error.
func deadlinePassed(err error) bool {
	var errno syscall.Errno
	var timed net.Error
	return errors.As(err, &timed) && timed.Timeout() && !errors.As(err, &errno)
}

// Windows has numbers of its own for these errors (winsock2.h), which package syscall does not name.
const (
	wsaNetUnreach  = syscall.Errno(10051)
	wsaTimedOut    = syscall.Errno(10060)
	wsaHostUnreach = syscall.Errno(10065)
	wsaRefused     = syscall.Errno(10061)
	wsaReset       = syscall.Errno(10054)
	wsaMsgSize     = syscall.Errno(10040)
	wsaAddrInUse   = syscall.Errno(10048)
)

func is(err error, any ...error) bool {
	for _, e := range any {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// lost tells whether an error means that the peer or the path to it is dead, rather than a reset.
func lost(err error) bool {
	return is(err, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH, wsaTimedOut, wsaHostUnreach,
		wsaNetUnreach)
}

// refused tells whether the port that a datagram was sent to is closed.
func refused(err error) bool { return is(err, syscall.ECONNREFUSED, wsaRefused, wsaReset) }

// tooLarge tells whether a datagram was larger than the path MTU or the buffer.
func tooLarge(err error) bool { return is(err, syscall.EMSGSIZE, wsaMsgSize) }

// shortage returns which resource of this host an error reports as exhausted.
func shortage(err error) splice.Shortage {
	switch {
	case is(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM):
		return splice.NoResources
	case is(err, syscall.EADDRNOTAVAIL):
		return splice.NoPort
	}
	return splice.Enough
}
