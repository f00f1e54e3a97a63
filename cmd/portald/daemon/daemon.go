// Package daemon makes the parts of a running portald out of a configuration, starts them in order, and stops them in
// reverse. It knows how parts depend on each other, and nothing of how they work.
package daemon

import (
	"context"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

// daemon is the parts, in the order in which they start.
type daemon struct {
	log        *logrus.Logger
	settings   atomic.Pointer[config.Settings] // of the last reload
	servers    *servers
	telemetry  *telemetry
	host       *host
	rules      *hostRules
	path       *dataPath
	flows      *kernelFlows
	reconciler *reconciler
	source     *source
	inventory  *inventory
	reload     *stage
}

// Life is what the daemon and the service that it runs as tell each other. The zero Life is that of no service.
type Life struct {
	Started func()          // called once all parts have started
	Cut     <-chan struct{} // closed when the drain has to end, as by a second signal
}

// Run runs a daemon of that version until ctx ends and everything is drained, or until a part fails. It also
// returns an error if the daemon cannot start.
func Run(
	ctx context.Context, flags *config.Flags, cfg *config.Config, log *logrus.Logger, version string, life Life,
) error {
	if err := checkRuntime(); err != nil {
		return err
	}
	d, err := newDaemon(flags, cfg, log, version)
	if err != nil {
		return err
	}
	d.reconciler.cut = life.Cut
	if life.Started == nil {
		life.Started = func() {}
	}
	return runParts(ctx, d.parts(), life.Started, d.servers.health.Draining)
}

// newDaemon makes the parts. Nothing runs yet, and the host's rules are unchanged.
func newDaemon(flags *config.Flags, cfg *config.Config, log *logrus.Logger, version string) (d *daemon, err error) {
	d = &daemon{log: log}
	d.settings.Store(&cfg.Settings)
	limit := raiseNoFile(log, version)
	if d.telemetry, err = newTelemetry(cfg, log, version); err != nil {
		return nil, err
	}
	if d.host, err = newHost(cfg.DetectLocal, log); err != nil {
		return nil, err
	}
	if d.rules, err = newHostRules(cfg, &d.settings, d.host, d.telemetry.metrics, log); err != nil {
		return nil, err
	}
	cfg = d.rules.cfg
	account := splice.NewAccount(budgetOf(cfg, limit, log))
	if d.path, err = newDataPath(cfg, d.host, d.rules, d.telemetry, account, d.whoIs(cfg), log); err != nil {
		return nil, err
	}
	if d.source, err = newSource(cfg, d.rules.writer.IPv6(), d.host.addresses.Contains, log); err != nil {
		return nil, err
	}
	d.flows = newKernelFlows(cfg, d.host, d.path.core, d.telemetry, d.whoIs(cfg), log)
	d.inventory = &inventory{
		store: d.source.store, mode: cfg.Mode, listeners: d.path.listeners, totals: d.telemetry.metrics.Totals,
		openBytes: d.path.core.OpenBytes,
		held:      func(f service.Frontend) *portal.Portal { return d.reconciler.dataplane.Held(f) },
		problems:  newProblems(), log: log,
	}
	d.servers = newServers(cfg, d.telemetry.metrics, d.source.events, account, d.adminAPI(version), log)
	d.connect()
	d.reload = newStage(func(ctx context.Context) error { return flags.Follow(ctx, cfg, log, d.applySettings) })
	prepareNode(cfg, d.source.events, log)
	return d, nil
}

// connect makes the reconciler, which needs most other parts, and registers callbacks between parts.
func (d *daemon) connect() {
	events, metrics := d.source.events, d.telemetry.metrics
	metrics.WatchChanges(d.source.changes)
	report := &reporter{
		log: d.log, events: events, metrics: metrics, servers: d.servers, resyncs: newResyncs(),
		flows:    d.flows.recorder,
		problems: d.inventory.problems,
	}
	d.rules.listeners, d.rules.failedPortal = d.path.listeners, report.failedPortal
	d.reconciler = newReconciler(d.rules, d.path, d.host, d.source, report)
	d.source.cache.WatchNode(d.nodeChanged)
	if d.rules.fellBack != nil {
		events.NodeWarning("NoIPVS", "StartKubeProxy", d.rules.fellBack.Error())
	}
}

// parts are in the order in which they start. They stop in reverse: no more changes, no new connections, open ones
// drained, the rest cut and recorded, rules removed unless the kernel carries on with them, and last the servers that
// show it.
func (d *daemon) parts() []part {
	return []part{d.servers, d.telemetry, d.host, d.rules, d.path, d.flows, d.reconciler, d.source, d.reload}
}

// nodeChanged applies what the Node object says of this node. A Node that is gone changes nothing: traffic goes on.
func (d *daemon) nodeChanged(n translate.Node, known bool) {
	if !known {
		return
	}
	d.servers.health.SetEligible(n.Eligible)
	if d.rules.setNode(n) {
		d.reconciler.resyncs.requestIfReady()
	}
}

// applySettings applies settings that changed while the daemon runs.
func (d *daemon) applySettings(s config.Settings) {
	d.log.SetLevel(s.LogLevel)
	d.telemetry.applySettings(s)
	d.reconciler.applySettings(s)
	d.flows.recorder.SetPolicy(s.Policy)
}
