package daemon

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/httpserver"
	"github.com/portald/portald/proxy/succession"
)

// adminSocket is the server of the socket that commands look into the daemon by.
type adminSocket struct {
	*httpserver.Server
	state *succession.State
	tried chan struct{} // closed after the first try to listen

	mu sync.Mutex
	at replaceable // guarded by mu, nil where it does not listen
}

// replaceable is a listener whose place another daemon takes: on Unix alone.
type replaceable interface {
	net.Listener
	Leave()
	Replaced() bool
}

// newAdminSocket replaces the socket of a predecessor. While any other daemon listens there this one goes on without,
// and tries again until that one has ended.
func newAdminSocket(
	cfg *config.Config, api *adminsocket.Handler, state *succession.State, log *logrus.Logger,
) *adminSocket {
	s := &adminSocket{state: state, tried: make(chan struct{})}
	tried := sync.OnceFunc(func() { close(s.tried) })
	if cfg.AdminSocket == "" {
		tried()
	}
	listen := func(ctx context.Context, path string) (net.Listener, error) {
		switch {
		case !state.WhenServing(ctx):
			return nil, context.Cause(ctx)
		case state.Replaces():
			return adminsocket.Replace(ctx, path)
		}
		return adminsocket.Listen(ctx, path)
	}
	s.Server = httpserver.New(httpserver.Options{
		Name: "admin", Address: cfg.AdminSocket, Log: log,
		Listen: func(ctx context.Context, _, path string) (net.Listener, error) {
			l, err := listen(ctx, path)
			defer tried()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.at, _ = l.(replaceable)
			return l, err
		},
	}, api)
	return s
}

// maxTry bounds how long others wait for the first try to listen.
const maxTry = 2 * time.Second

// first returns listen for a server that is not to answer before the socket does: who is told that the daemon is
// healthy may look into it.
func (s *adminSocket) first(
	listen func(ctx context.Context, network, address string) (net.Listener, error),
) func(ctx context.Context, network, address string) (net.Listener, error) {
	return func(ctx context.Context, network, address string) (net.Listener, error) {
		if !s.state.WhenServing(ctx) {
			return nil, context.Cause(ctx)
		}
		limit := time.NewTimer(maxTry)
		defer limit.Stop()
		select {
		case <-s.tried:
		case <-limit.C:
		case <-ctx.Done():
		}
		return listen(ctx, network, address)
	}
}

// awaitReplaced waits a little until a successor listens at the socket, so that clients find one of the two.
func (s *adminSocket) awaitReplaced(ctx context.Context) {
	s.mu.Lock()
	at := s.at
	s.mu.Unlock()
	if at == nil {
		return
	}
	at.Leave()
	for until := time.Now().Add(replaceTime); !at.Replaced() && time.Now().Before(until) && ctx.Err() == nil; {
		_ = backoff.Sleep(ctx, time.Millisecond)
	}
}

// close stops listening.
func (s *adminSocket) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at != nil {
		_ = s.at.Close() // it is open, or was closed just now
	}
}

// replaceTime is how long a predecessor waits for its successor to listen at the admin socket.
const replaceTime = 2 * time.Second
