package succession

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
)

// ServerSockets are the listeners of the daemon's servers of HTTP, for a successor. Safe for concurrent use.
type ServerSockets struct {
	from *State

	mu   sync.Mutex
	open map[string]*serverSocket // guarded by mu, by the configured address
	shut bool                     // guarded by mu: another daemon listens
}

// serverSocket is one of them, until it is closed.
type serverSocket struct {
	*net.TCPListener
	all     *ServerSockets
	address string
}

// NewServerSockets returns the sockets of the daemon's servers; it takes over the predecessor's.
func NewServerSockets(from *State) *ServerSockets {
	return &ServerSockets{from: from, open: map[string]*serverSocket{}}
}

// Listen takes over the listener of a predecessor, or makes one.
func (s *ServerSockets) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	if s.isShut() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	l, err := s.from.Inherited.server(address)
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

// ListenLate is Listen once this daemon serves the node: until then its predecessor answers.
func (s *ServerSockets) ListenLate(ctx context.Context, network, address string) (net.Listener, error) {
	if !s.from.WhenServing(ctx) {
		return nil, context.Cause(ctx)
	}
	return s.Listen(ctx, network, address)
}

// CloseAll stops listening, so that another daemon can.
func (s *ServerSockets) CloseAll() {
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.open))
	s.shut = true
	s.mu.Unlock()
	for _, l := range open {
		_ = l.Close() // it is open, or was closed just now
	}
}

func (s *ServerSockets) isShut() bool {
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

// all returns the configured addresses, with their listeners.
func (s *ServerSockets) all() map[string]*net.TCPListener {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]*net.TCPListener{}
	for address, l := range s.open {
		all[address] = l.TCPListener
	}
	return all
}
