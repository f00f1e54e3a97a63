package goroutine

import (
	"errors"
	"net"
	"syscall"

	"github.com/portald/portald/proxy/splice"
)

// cause returns the errno within an error of package net, under a name that every system has, or else the error itself.
func cause(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	if name := winsock(errno); name != 0 {
		return winsockError{name, errno}
	}
	return errno
}

// winsock returns package syscall's name of a number in Microsoft's winsock2.h, 0 if it has none. On Windows that name
// has an invented number, which no call returns.
func winsock(number syscall.Errno) syscall.Errno {
	switch number {
	case 10013:
		return syscall.EACCES // the port is in an excluded range, or a firewall does not allow it
	case 10024:
		return syscall.EMFILE
	case 10040:
		return syscall.EMSGSIZE
	case 10048:
		return syscall.EADDRINUSE
	case 10049:
		return syscall.EADDRNOTAVAIL
	case 10050:
		return syscall.ENETDOWN
	case 10051:
		return syscall.ENETUNREACH
	case 10052:
		return syscall.ENETRESET // keepalive had no answer
	case 10053:
		return syscall.ECONNABORTED // a send to a peer that had reset the connection
	case 10054:
		return syscall.ECONNRESET
	case 10055:
		return syscall.ENOBUFS
	case 10060:
		return syscall.ETIMEDOUT
	case 10061:
		return syscall.ECONNREFUSED
	case 10065:
		return syscall.EHOSTUNREACH
	}
	return 0
}

// winsockError is both: errors.Is finds either. Its text is the one of other systems, since Windows translates its own.
type winsockError struct{ name, number syscall.Errno }

func (e winsockError) Error() string   { return e.name.Error() }
func (e winsockError) Unwrap() []error { return []error{e.name, e.number} }

// deadlinePassed tells whether a deadline set by this package passed; ETIMEDOUT of the kernel is another error.
func deadlinePassed(err error) bool {
	var errno syscall.Errno
	var timed net.Error
	return errors.As(err, &timed) && timed.Timeout() && !errors.As(err, &errno)
}

func is(err error, any ...syscall.Errno) bool {
	err = cause(err)
	for _, e := range any {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// lost tells whether an error means that the peer or the path to it is dead, rather than a reset.
func lost(err error) bool {
	return is(err, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETRESET)
}

// refused tells whether the port that a datagram was sent to is closed. Windows calls that a reset.
func refused(err error) bool { return is(err, syscall.ECONNREFUSED, syscall.ECONNRESET) }

// tooLarge tells whether a datagram was larger than the path MTU or the buffer.
func tooLarge(err error) bool { return is(err, syscall.EMSGSIZE) }

// shortage returns which resource of this host an error of a dial or an accept reports as exhausted.
func shortage(err error) splice.Shortage {
	switch {
	case is(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM):
		return splice.NoResources
	case is(err, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE):
		return splice.NoPort
	}
	return splice.Enough
}
