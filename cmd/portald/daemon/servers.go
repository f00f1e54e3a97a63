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
	"github.com/portald/portald/proxy/succession"
	"github.com/portald/portald/proxy/webui"
	"github.com/portald/portald/proxy/zpages"
)

// probes has the daemon's health, for probes and load balancers. It is kept up to date whether or not it is served.
type probes struct {
	health   *health.Health
	services *health.ServiceHealth // served at the health check ports of Services
	sockets  *succession.ServerSockets
}

func newProbes(
	rules *hostRules, m *metrics.Metrics, account *quota.Account, events *watch.Recorder,
) *probes {
	cfg, state := rules.cfg, rules.state
	sockets, healthy := succession.NewServerSockets(state), health.New(cfg.SyncPeriod, m)
	services := health.NewServiceHealth(health.ServiceOptions{
		Log: rules.log, Listen: listenWithin(account, sockets.Listen),
		Tried: func() { state.Inherited.CloseServers(cfg.HealthAddress, cfg.MetricsAddress) },
		Failed: func(svc service.Name, err error) {
			events.ServiceWarning(svc, "FailedToStartServiceHealthcheck", "Listen", err.Error())
		},
	}, healthy)
	return &probes{healthy, services, sockets}
}

// servers show the daemon to others: health, metrics, health checks of Services, the admin API, and events. They start
// first and stop last, so that a drain can be watched.
type servers struct {
	*parts.Stage
	sockets *succession.ServerSockets
	socket  *adminSocket
}

func newServers(
	rules *hostRules, shown *probes, m *metrics.Metrics, events *watch.Recorder, flags map[string]string,
	api *adminsocket.Handler,
) *servers {
	cfg, log := rules.cfg, rules.log
	socket := newAdminSocket(cfg, api, rules.state, log)
	options := func(name, address, failed string) httpserver.Options {
		return httpserver.Options{
			Name: name, Address: address, HardFail: cfg.BindAddressHardFail, Log: log,
			Listen: socket.first(shown.sockets.ListenLate),
			Failed: func(err error) { events.NodeWarning(failed, "StartKubeProxy", err.Error()) },
		}
	}
	healthz := health.NewServer(options("health", cfg.HealthAddress, "FailedToStartProxierHealthcheck"), shown.health)
	pages := zpages.Pages{
		Mode: cfg.ProxyMode, Config: cfg.Documents, Profiling: cfg.Profiling,
		SetVerbosity: func(text string) error { return setVerbosity(log, text) },
		Flags:        flags, CommandLine: config.CommandLine(),
	}
	if cfg.ReadOnlyAPI {
		pages.View = api.View()
	}
	var watch []func(context.Context) error
	if cfg.Page {
		page := webui.NewLocal(api.Viewer())
		pages.Page = webui.GuardLocal(page)
		watch = append(watch, func(ctx context.Context) error { page.WatchForReaders(ctx); return nil })
	}
	metricsz := zpages.NewServer(
		options("metrics", cfg.MetricsAddress, "FailedToStartMetricServer"), m, pages)
	runs := append(watch, healthz.Run, metricsz.Run, shown.services.Run, socket.Run)
	if events != nil {
		runs = append(runs, events.Run)
	}
	return &servers{parts.NewStage(runs...), shown.sockets, socket}
}

// yield stops listening, so that another daemon can. Requests under way are answered.
func (s *servers) yield() {
	s.sockets.CloseAll()
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
