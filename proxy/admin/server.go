package admin

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	rebindEvery  = 5 * time.Second // kube-proxy's
	shutdownTime = time.Second     // for answers under way when the server ends
	idleTime     = 10 * time.Second
)

// ServerOptions tell where and how an HTTP server listens.
type ServerOptions struct {
	Name     string      // "health": for log lines and errors
	Address  string      // "host:port"; empty = no server
	HardFail bool        // end Run with an error when the address cannot be bound, in place of trying again
	Failed   func(error) // told once when the address cannot be bound; nil = nobody
	Log      logrus.FieldLogger

	// Listen binds the address; nil = the real thing.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
}

// Server is one HTTP server of the daemon.
type Server struct {
	o       ServerOptions
	handler http.Handler
	places  *places
}

// NewHealthServer returns a server of /healthz and /livez.
func NewHealthServer(o ServerOptions, h *Health) *Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", h.Healthz)
	mux.HandleFunc("GET /livez", h.Livez)
	return newServer(o, mux)
}

func newServer(o ServerOptions, h http.Handler) *Server {
	if o.Listen == nil {
		o.Listen = (&net.ListenConfig{}).Listen
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return &Server{o: o, handler: h, places: &places{most: placesOfServer}}
}

// Run serves until ctx ends, and returns nil then, after answers under way were given a second. An address that
// cannot be bound is tried again every 5 s, unless HardFail.
func (s *Server) Run(ctx context.Context) error {
	if s.o.Address == "" {
		return nil
	}
	l, err := s.bind(ctx)
	if err != nil || l == nil {
		return err
	}
	return s.serve(ctx, l)
}

// bind returns a listener, or none when ctx ended before there could be one.
func (s *Server) bind(ctx context.Context) (net.Listener, error) {
	for said := false; ctx.Err() == nil; said = true {
		l, err := s.o.Listen(ctx, "tcp", s.o.Address)
		switch {
		case ctx.Err() != nil:
			if l != nil {
				_ = l.Close() // nobody knows of it yet
			}
			return nil, nil
		case err == nil && said:
			s.o.Log.Infof("%s server is bound to %s now", s.o.Name, s.o.Address)
			return l, nil
		case err == nil:
			return l, nil
		case s.o.HardFail:
			s.o.Failed(err)
			return nil, fmt.Errorf("bind %s server: %w", s.o.Name, err)
		case !said:
			s.o.Log.WithError(err).Warnf("cannot bind %s server, trying again every %v", s.o.Name, rebindEvery)
			s.o.Failed(err)
		}
		pause(ctx, rebindEvery)
	}
	return nil, nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *Server) serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute, // the metrics of 10,000 Services take a moment
		IdleTimeout:       idleTime,
		ConnState:         s.places.follow,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          stdlog.New(complaints{s.o}, "", 0),
	}
	var wg sync.WaitGroup
	ended := make(chan struct{})
	wg.Go(func() {
		select {
		case <-ctx.Done():
			shutdown(server)
		case <-ended:
		}
	})
	err := server.Serve(l)
	close(ended)
	wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", s.o.Name, err)
}

// shutdown ends the server, those by force that take too long.
func shutdown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close() // the listener is closed already, and connections are cut
	}
}

// complaints takes what net/http has to say about its clients, of whom anybody may be one: for debugging only.
type complaints struct{ o ServerOptions }

func (c complaints) Write(line []byte) (int, error) {
	c.o.Log.Debugf("%s server: %s", c.o.Name, strings.TrimSpace(string(line)))
	return len(line), nil
}
