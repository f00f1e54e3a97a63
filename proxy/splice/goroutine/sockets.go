package goroutine

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/portald/portald/platform/inet"
)

// socket is a listening socket, as far as ending the engine needs it.
type socket interface {
	stop() // no connection or session begins
	end()  // it closes, soon
}

// sockets is the set of open sockets.
type sockets struct {
	mu  sync.Mutex
	all map[socket]struct{} // guarded by mu
}

func (s *sockets) add(one socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[one] = struct{}{}
}

func (s *sockets) remove(one socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, one)
}

func (s *sockets) list() []socket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.all))
}

// listenControl sets options of sockets that clients connect or send to.
func (e *shared) listenControl(protocol inet.Protocol) func(string, string, syscall.RawConn) error {
	if e.host.Listening == nil {
		return nil
	}
	return func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) { err = e.host.Listening(fd, protocol) })
		return errors.Join(failed, err)
	}
}

// dialControl sets options of sockets to endpoints.
func (e *shared) dialControl(p inet.Protocol, as netip.Addr) func(string, string, syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) {
			if e.host.Dialling != nil {
				err = e.host.Dialling(fd, p, e.core.Options().Mark)
			}
			if as.IsValid() {
				e.bindTransparent(fd, as)
			}
		})
		return errors.Join(failed, err)
	}
}

// bindTransparent binds a socket to the client's address, if the host supports it.
func (e *shared) bindTransparent(fd uintptr, client netip.Addr) {
	err := errors.ErrUnsupported
	if e.host.BindTransparent != nil {
		err = e.host.BindTransparent(fd, client)
	}
	if err != nil {
		e.core.Shortages().NotTransparent(err, e.core.Now())
	}
}
