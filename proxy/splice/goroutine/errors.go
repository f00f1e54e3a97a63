package goroutine

import (
	"errors"
	"net"
	"syscall"

	"github.com/portald/portald/proxy/splice"
)

// cause is the system's own error, without what package net says around it.
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

// deadlinePassed tells whether an error is that of a deadline of ours, and not of a peer that stopped answering.
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

// lost tells whether an error means that the peer stopped answering.
func lost(err error) bool {
	return is(err, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH, wsaTimedOut, wsaHostUnreach,
		wsaNetUnreach)
}

// refused tells whether nobody listens at the port that a datagram was sent to.
func refused(err error) bool { return is(err, syscall.ECONNREFUSED, wsaRefused, wsaReset) }

// tooLarge tells whether a datagram was too large for its way, or for the buffer.
func tooLarge(err error) bool { return is(err, syscall.EMSGSIZE, wsaMsgSize) }

// shortage is what of this host an error tells that there is too little of.
func shortage(err error) splice.Shortage {
	switch {
	case is(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM):
		return splice.NoResources
	case is(err, syscall.EADDRNOTAVAIL):
		return splice.NoPort
	}
	return splice.Enough
}
