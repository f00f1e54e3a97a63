// Package httpserver runs the HTTP servers of the daemon: it binds an address again and again until it is free, bounds
// the number of connections, and lets no client use up the server.
package httpserver

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

	"github.com/portald/portald/platform/backoff"
)

// RebindEvery is how long a server waits until it tries to bind its address again; it is kube-proxy's.
const RebindEvery = 5 * time.Second

const (
	shutdownTime = time.Second // for answers under way when the server ends
	idleTime     = 10 * time.Second
)

// Options tell where and how a server listens.
type Options struct {
	Name     string      // "health": for log lines and errors
	Address  string      // "host:port"; empty = no server
	HardFail bool        // end Run with an error when the address cannot be bound, in place of trying again
	Failed   func(error) // called once if the address cannot be bound; nil = none
	Log      logrus.FieldLogger

	// Limit bounds the connections of this server and of others together; nil = MaxConnections of its own.
	Limit *ConnLimit

	// Listen binds the address, for the network tcp; nil = net.ListenConfig.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
}

// Server is one HTTP server of the daemon.
type Server struct {
	o       Options
	handler http.Handler
}

// New returns a server that Run has not started yet.
func New(o Options, h http.Handler) *Server {
	if o.Listen == nil {
		o.Listen = (&net.ListenConfig{}).Listen
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.Limit == nil {
		o.Limit = NewConnLimit(MaxConnections)
	}
	return &Server{o: o, handler: h}
}

// Run serves until ctx ends or the listener is closed, gives requests under way a second, and returns nil. An address
// that cannot be bound is tried again every 5 s, unless HardFail.
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

// bind returns a listener, or nil if ctx ends before the address can be bound.
func (s *Server) bind(ctx context.Context) (net.Listener, error) {
	for reported := false; ctx.Err() == nil; reported = true {
		l, err := s.o.Listen(ctx, "tcp", s.o.Address)
		switch {
		case ctx.Err() != nil:
			if l != nil {
				_ = l.Close()
			}
			return nil, nil
		case err == nil && reported:
			s.o.Log.Infof("%s server is bound to %s now", s.o.Name, s.o.Address)
			return l, nil
		case err == nil:
			return l, nil
		case s.o.HardFail:
			s.o.Failed(err)
			return nil, fmt.Errorf("bind %s server: %w", s.o.Name, err)
		case !reported:
			s.o.Log.WithError(err).Warnf("Cannot bind %s server, trying again every %v", s.o.Name, RebindEvery)
			s.o.Failed(err)
		}
		_ = backoff.Sleep(ctx, RebindEvery)
	}
	return nil, nil
}

func (s *Server) serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.handler,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // what streams ends with the server
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute, // the metrics of 10,000 Services take a moment
		IdleTimeout:       idleTime,
		ConnState:         s.o.Limit.track,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          stdlog.New(debugLog{s.o}, "", 0),
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
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", s.o.Name, err)
}

// shutdown ends the server, and cuts requests that take longer than shutdownTime.
func shutdown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close() // the listener is closed already
	}
}

// debugLog logs at debug level what net/http reports of its clients: anybody may be one, and could flood the log.
type debugLog struct{ o Options }

func (l debugLog) Write(line []byte) (int, error) {
	l.o.Log.Debugf("%s server: %s", l.o.Name, strings.TrimSpace(string(line)))
	return len(line), nil
}
