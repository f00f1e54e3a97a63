package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/proxy/admin"
	"github.com/portald/portald/proxy/adminapi"
)

// newAdminSocket returns the server of the socket that commands look into the daemon by. A predecessor's it
// replaces. While any other daemon listens there this one goes on without, and tries again until that one has ended.
func newAdminSocket(
	cfg *config.Config, api *adminapi.Handler, heritage *inheritance, log *logrus.Logger,
) *admin.Server {
	return admin.NewAPIServer(admin.ServerOptions{
		Name: "admin", Address: cfg.AdminSocket, Log: log,
		Listen: func(ctx context.Context, _, path string) (net.Listener, error) {
			switch {
			case !heritage.whenServing(ctx):
				return nil, context.Cause(ctx)
			case heritage.replaces.Load():
				return adminapi.Replace(ctx, path)
			}
			return adminapi.Listen(ctx, path)
		},
	}, api)
}

// adminAPI returns the handler of the admin API, which asks the other parts when it is asked.
func (d *daemon) adminAPI(version string) *adminapi.Handler {
	started := time.Now()
	return adminapi.NewHandler(adminapi.Daemon{
		Info: func() adminapi.Info {
			cfg := d.rules.cfg
			return adminapi.Info{
				Version: version, API: adminapi.Version, Node: cfg.NodeName, PID: os.Getpid(), Started: started,
				Mode: cfg.ProxyMode, Writer: cfg.Writer, LogLevel: d.log.GetLevel().String(),
				Ready: d.reconciler.resyncs.isReady(), Instance: os.Getenv(adminapi.InstanceVariable),
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
