package goroutine

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/portald/portald/proxy/splice"
)

// failure is an error as package net returns it.
func failure(number syscall.Errno) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connectex", number)}
}

// An error of Windows is the same error as on other systems, and its number is still found.
func TestNumbersOfWindows(t *testing.T) {
	for _, c := range []struct {
		number, name            syscall.Errno
		lost, refuses, tooLarge bool
		lacks                   splice.Shortage
	}{
		{number: 10013, name: syscall.EACCES},
		{number: 10024, name: syscall.EMFILE, lacks: splice.NoResources},
		{number: 10040, name: syscall.EMSGSIZE, tooLarge: true},
		{number: 10048, name: syscall.EADDRINUSE, lacks: splice.NoPort},
		{number: 10049, name: syscall.EADDRNOTAVAIL, lacks: splice.NoPort},
		{number: 10050, name: syscall.ENETDOWN},
		{number: 10051, name: syscall.ENETUNREACH, lost: true},
		{number: 10052, name: syscall.ENETRESET, lost: true},
		{number: 10053, name: syscall.ECONNABORTED},
		{number: 10054, name: syscall.ECONNRESET, refuses: true},
		{number: 10055, name: syscall.ENOBUFS, lacks: splice.NoResources},
		{number: 10060, name: syscall.ETIMEDOUT, lost: true},
		{number: 10061, name: syscall.ECONNREFUSED, refuses: true},
		{number: 10065, name: syscall.EHOSTUNREACH, lost: true},
	} {
		for _, err := range []error{failure(c.number), failure(c.name)} {
			why := cause(err)
			if !errors.Is(why, c.name) || why.Error() != c.name.Error() {
				t.Errorf("%d: got %v, want %v", c.number, why, c.name)
			}
			if lost(err) != c.lost || refused(err) != c.refuses || tooLarge(err) != c.tooLarge ||
				shortage(err) != c.lacks {
				t.Errorf("%d: lost %v, refused %v, too large %v, shortage %v", c.number, lost(err), refused(err),
					tooLarge(err), shortage(err))
			}
		}
		if !errors.Is(cause(failure(c.number)), c.number) {
			t.Errorf("%d is not found", c.number)
		}
	}
}
