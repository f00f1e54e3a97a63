package userspace

import (
	"errors"
	"maps"
	"net/netip"
	"syscall"
	"time"

	"github.com/portald/portald/portal/service"
)

// closingTime is more than an engine takes to close a socket.
const closingTime = 500 * time.Millisecond

// sockets knows where sockets of fronts may still close, since engines close them later than they are told to.
type sockets struct {
	closing map[service.Frontend]time.Time // until when
}

// listen has a front listen, and waits where a socket of another front, or of an earlier time, still closes.
func (s *sockets) listen(f *front, at netip.AddrPort) error {
	frontend := f.frontend(at)
	for {
		err := f.Listen(at)
		if !errors.Is(err, syscall.EADDRINUSE) || !time.Now().Before(s.closing[frontend]) {
			delete(s.closing, frontend)
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// unlisten ends that. Open connections go on; sessions of UDP end.
func (s *sockets) unlisten(f *front, at netip.AddrPort) {
	f.Unlisten(at)
	s.closes(f, at)
}

// closes notes that a front has been told not to listen any more.
func (s *sockets) closes(f *front, at netip.AddrPort) {
	s.closing[f.frontend(at)] = time.Now().Add(closingTime)
}

// sweep forgets what has closed.
func (s *sockets) sweep(now time.Time) {
	maps.DeleteFunc(s.closing, func(_ service.Frontend, until time.Time) bool { return now.After(until) })
}
