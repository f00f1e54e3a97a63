package connlog

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// errnoName returns the name of an error number of sockets without its prefix WSA, such as ECONNRESET, "" for all
// others.
func errnoName(n syscall.Errno) string {
	switch n {
	case windows.WSAECONNRESET:
		return "ECONNRESET"
	case windows.WSAECONNABORTED:
		return "ECONNABORTED"
	case windows.WSAECONNREFUSED:
		return "ECONNREFUSED"
	case windows.WSAETIMEDOUT:
		return "ETIMEDOUT"
	case windows.WSAENETUNREACH:
		return "ENETUNREACH"
	case windows.WSAEHOSTUNREACH:
		return "EHOSTUNREACH"
	case windows.WSAENETRESET:
		return "ENETRESET"
	case windows.WSAESHUTDOWN:
		return "ESHUTDOWN"
	case windows.WSAEADDRNOTAVAIL:
		return "EADDRNOTAVAIL"
	case windows.WSAENOBUFS:
		return "ENOBUFS"
	}
	return ""
}
