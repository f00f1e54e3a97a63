package daemon

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/health"
	"github.com/portald/portald/proxy/httpserver"
	"github.com/portald/portald/proxy/kube/watch"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/zpages"
)

// servers show the daemon to others: health, metrics, health checks of Services, and events. They start first and stop
// last, so that a drain can be watched.
type servers struct {
	*parts.Stage
	health   *health.Health
	services *health.ServiceHealth
	sockets  *serverSockets
	socket   *adminSocket
}

func newServers(
	cfg *config.Config, m *metrics.Metrics, events *watch.Recorder, account *quota.Account,
	flags map[string]string, api *adminsocket.Handler, heritage *inheritance, log *logrus.Logger,
) *servers {
	sockets := newServerSockets(heritage)
	healthy := health.New(cfg.SyncPeriod, m)
	options := func(name, address, failed string) httpserver.Options {
		return httpserver.Options{
			Name: name, Address: address, HardFail: cfg.BindAddressHardFail, Log: log,
			Listen: sockets.listenLate,
			Failed: func(err error) { events.NodeWarning(failed, "StartKubeProxy", err.Error()) },
		}
	}
	healthz := health.NewServer(options("health", cfg.HealthAddress, "FailedToStartProxierHealthcheck"), healthy)
	pages := zpages.Pages{
		Mode: cfg.ProxyMode, Config: cfg.Documents, Profiling: cfg.Profiling,
		SetVerbosity: func(text string) error { return setVerbosity(log, text) },
		Flags:        flags, CommandLine: config.CommandLine(),
	}
	if cfg.ReadOnlyAPI {
		pages.View = api.View()
	}
	metricsz := zpages.NewServer(
		options("metrics", cfg.MetricsAddress, "FailedToStartMetricServer"), m, pages)
	services := health.NewServiceHealth(health.ServiceOptions{
		Log: log, Listen: listenWithin(account, sockets.listen),
		Tried: func() { heritage.closeServers(cfg.HealthAddress, cfg.MetricsAddress) },
		Failed: func(svc service.Name, err error) {
			events.ServiceWarning(svc, "FailedToStartServiceHealthcheck", "Listen", err.Error())
		},
	}, healthy)
	socket := newAdminSocket(cfg, api, heritage, log)
	runs := []func(context.Context) error{healthz.Run, metricsz.Run, services.Run, socket.Run}
	if events != nil {
		runs = append(runs, events.Run)
	}
	return &servers{parts.NewStage(runs...), healthy, services, sockets, socket}
}

// yield stops listening, so that another daemon can. Requests under way are answered.
func (s *servers) yield() {
	s.sockets.closeAll()
	s.socket.close()
}

// setVerbosity sets the log level by a number as --v takes.
func setVerbosity(log *logrus.Logger, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%q: must be a number from 0 on", text)
	}
	log.SetLevel(config.LevelOf(n))
	return nil
}
