package hostinfo

import (
	"context"
	"net"
	"net/netip"
	"syscall"

	"github.com/portald/portald/platform"
)

// Reaches returns a function that connects to an endpoint and closes the connection, with the mark of packets to
// endpoints unless that is 0.
func Reaches(mark uint32) func(context.Context, netip.AddrPort) error {
	d := net.Dialer{}
	d.SetMultipathTCP(false)
	if mark != 0 {
		d.Control = func(_, _ string, raw syscall.RawConn) (err error) {
			if failed := raw.Control(func(fd uintptr) { err = platform.Mark(fd, mark) }); failed != nil {
				return failed
			}
			return err
		}
	}
	return func(ctx context.Context, at netip.AddrPort) error {
		c, err := d.DialContext(ctx, "tcp", at.String())
		if err != nil {
			return err
		}
		return c.Close()
	}
}
