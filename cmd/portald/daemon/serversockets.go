package daemon

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
)

// serverSockets are the listeners of the daemon's servers of HTTP, for a successor. Safe for concurrent use.
type serverSockets struct {
	from *inheritance

	mu   sync.Mutex
	open map[string]*serverSocket // guarded by mu, by the address that was asked for
	shut bool                     // guarded by mu: another daemon listens
}

// serverSocket is one of them, until it is closed.
type serverSocket struct {
	*net.TCPListener
	all     *serverSockets
	address string
}

func newServerSockets(from *inheritance) *serverSockets {
	return &serverSockets{from: from, open: map[string]*serverSocket{}}
}

// listen takes over the listener of a predecessor, or makes one.
func (s *serverSockets) listen(ctx context.Context, network, address string) (net.Listener, error) {
	if s.isShut() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	l, err := s.from.server(address)
	if l == nil && err == nil {
		l, err = (&net.ListenConfig{}).Listen(ctx, network, address)
	}
	if err != nil {
		return nil, err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return l, nil
	}
	socket := &serverSocket{tcp, s, address}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[address] = socket
	return socket, nil
}

// listenLate is listen once this daemon serves the node: until then its predecessor answers.
func (s *serverSockets) listenLate(ctx context.Context, network, address string) (net.Listener, error) {
	if !s.from.whenServing(ctx) {
		return nil, context.Cause(ctx)
	}
	return s.listen(ctx, network, address)
}

// closeAll stops listening, so that another daemon can.
func (s *serverSockets) closeAll() {
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.open))
	s.shut = true
	s.mu.Unlock()
	for _, l := range open {
		_ = l.Close() // it is open, or was closed just now
	}
}

func (s *serverSockets) isShut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shut
}

// Close implements net.Listener.
func (s *serverSocket) Close() error {
	s.all.mu.Lock()
	if s.all.open[s.address] == s {
		delete(s.all.open, s.address)
	}
	s.all.mu.Unlock()
	return s.TCPListener.Close()
}

// all are the addresses that were asked for, with their listeners.
func (s *serverSockets) all() map[string]*net.TCPListener {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]*net.TCPListener{}
	for address, l := range s.open {
		all[address] = l.TCPListener
	}
	return all
}
