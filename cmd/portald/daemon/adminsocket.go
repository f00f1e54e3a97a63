package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/httpserver"
)

// adminSocket is the server of the socket that commands look into the daemon by.
type adminSocket struct {
	*httpserver.Server

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
	cfg *config.Config, api *adminsocket.Handler, heritage *inheritance, log *logrus.Logger,
) *adminSocket {
	s := &adminSocket{}
	listen := func(ctx context.Context, path string) (net.Listener, error) {
		switch {
		case !heritage.whenServing(ctx):
			return nil, context.Cause(ctx)
		case heritage.replaces.Load():
			return adminsocket.Replace(ctx, path)
		}
		return adminsocket.Listen(ctx, path)
	}
	s.Server = httpserver.New(httpserver.Options{
		Name: "admin", Address: cfg.AdminSocket, Log: log,
		Listen: func(ctx context.Context, _, path string) (net.Listener, error) {
			l, err := listen(ctx, path)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.at, _ = l.(replaceable)
			return l, err
		},
	}, api)
	return s
}

// awaitReplaced waits a little until a successor listens at the socket, so that who asks finds one of the two.
func (s *adminSocket) awaitReplaced(ctx context.Context) {
	s.mu.Lock()
	at := s.at
	s.mu.Unlock()
	if at == nil {
		return
	}
	at.Leave()
	for until := time.Now().Add(replaceTime); !at.Replaced() && time.Now().Before(until) && ctx.Err() == nil; {
		parts.Pause(ctx, time.Millisecond)
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

// adminAPI returns the handler of the admin API, which asks the other parts when it is asked.
func (d *daemon) adminAPI(version string) *adminsocket.Handler {
	started := time.Now()
	return adminsocket.NewHandler(adminsocket.Daemon{
		Info: func() adminsocket.Info {
			cfg := d.rules.cfg
			return adminsocket.Info{
				Version: version, API: adminsocket.Version, Node: cfg.NodeName, PID: os.Getpid(), Started: started,
				Mode: cfg.ProxyMode, Writer: cfg.Writer, LogLevel: d.log.GetLevel().String(),
				Ready: d.reconciler.resyncs.isReady(), Instance: os.Getenv(adminsocket.InstanceVariable),
				Disturbances: d.reconciler.disturbances.report(),
			}
		},
		Connections: d.path.connections,
		Kernel:      d.flows.connections,
		AddTCP:      d.path.addTCP,
		Records:     d.telemetry.stream,
		Services:    d.inventory.services,
		Endpoints:   d.inventory.endpoints,
		Drain:       d.inventory.drain,
		Undrain:     d.inventory.undrain,
		Cut:         d.path.core.Cut,
		SetLogLevel: d.setLogLevel,
		Explain:     newExplainer(d).explain,
	})
}

// setLogLevel sets the level of the log until the configuration changes.
func (d *daemon) setLogLevel(text string) error {
	levels := []string{"error", "warn", "info", "debug", "trace"}
	level, err := logrus.ParseLevel(text)
	if err != nil || !slices.Contains(levels, text) {
		return fmt.Errorf("must be one of %s", strings.Join(levels, ", "))
	}
	d.log.SetLevel(level)
	return nil
}
