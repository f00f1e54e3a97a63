// Package daemon makes the parts of a running portald out of a configuration, starts them in order, and stops them in
// reverse. It knows how parts depend on each other, and nothing of how they work.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/answers"
	"github.com/portald/portald/cmd/portald/daemon/hostinfo"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/succession"
	"github.com/portald/portald/proxy/succession/handover"
)

// daemon has the parts that run, for changes of settings and signals.
type daemon struct {
	log        *logrus.Logger
	telemetry  *telemetry
	events     *connectionEvents
	rules      *hostRules
	flows      *kernelFlows
	reconciler *reconciler
	source     *source
	probes     *probes
	state      *succession.State
	keeper     *succession.Keeper // nil: none was there at the start
	succession *succession.Succession
	own        handover.Identity
	end        context.CancelCauseFunc
}

// Life connects the daemon with the service manager that runs it. The zero Life is for a daemon without one.
type Life struct {
	Started func()          // called once all parts have started
	Cut     <-chan struct{} // closed when the drain has to end, as by a second signal

	Successor bool   // it ends with an error unless it can take over from a daemon that runs
	Serving   func() // called once it serves the node, if not nil
}

// Run runs a daemon of that version until ctx ends and everything is drained, or until a part fails. It also
// returns an error if the daemon cannot start.
func Run(
	ctx context.Context, flags *config.Flags, cfg *config.Config, log *logrus.Logger, version string, life Life,
) error {
	if err := checkRuntime(); err != nil {
		return err
	}
	told := ctx
	if life.Started == nil {
		life.Started = func() {}
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(told))
	defer end(nil)
	d, all, err := newDaemon(told, flags, cfg, log, version, life, end)
	if err != nil && told.Err() != nil {
		log.WithError(err).Info("Told to end before it could write rules")
		return nil
	}
	if err != nil {
		return err
	}
	defer context.AfterFunc(told, func() { d.toldToEnd(context.Cause(told)) })()
	err = parts.Run(ctx, all, life.Started, d.stopping)
	d.keeper.Bye()
	if !errors.Is(context.Cause(ctx), succession.ErrHandedOver) {
		return err
	}
	if err != nil { // as where the disk is full: whoever started this one is not to start it again for that
		log.WithError(err).Warn("Leaving the node to another portald, without an orderly end")
	}
	rest(told, d.state, log)
	return nil
}

// toldToEnd ends the daemon, once what it carries is left to the next one if that is about to start.
func (d *daemon) toldToEnd(cause error) {
	d.rules.interrupted.Store(errors.Is(cause, ErrInterrupted))
	d.source.history.Add(changes.Change{Kind: changes.DaemonEnding, What: fmt.Sprintf("%s is told to end", d.own)})
	if d.succession.StoreForNext(context.Background()) {
		cause = succession.ErrHandedOver
	}
	d.end(cause)
}

// stopping has no more connections sent here, unless another daemon serves this node.
func (d *daemon) stopping() {
	if !d.state.OtherServes() {
		d.probes.health.Draining()
	}
}

// ErrInterrupted is the cause of Run's ctx where somebody at a terminal ends the daemon: see config.OnExit.
var ErrInterrupted = errors.New("interrupted")

// newDaemon makes the parts, each of those before it, and returns them in the order in which they start. Nothing runs
// yet, and the host's rules are unchanged. It may wait for the lock of iptables, until ctx ends.
func newDaemon(
	ctx context.Context, flags *config.Flags, cfg *config.Config, log *logrus.Logger, version string, life Life,
	end context.CancelCauseFunc,
) (*daemon, []parts.Part, error) {
	settings := &atomic.Pointer[config.Settings]{}
	settings.Store(&cfg.Settings)
	quietLibraries(log)
	limit := hostinfo.RaiseNoFile(log, version)
	history := changes.NewLog(changes.DefaultSize)
	telemetry, err := newTelemetry(cfg, history, log, version)
	if err != nil {
		return nil, nil, err
	}
	host, err := hostinfo.New(cfg, log)
	if err != nil {
		return nil, nil, err
	}
	state := succession.NewState(cfg.HandOverSocket)
	rules, err := newHostRules(ctx, cfg, settings, host, state, telemetry.metrics, log)
	if err != nil {
		return nil, nil, err
	}
	cfg = rules.cfg
	pods := newPodNetwork(cfg, log)
	if err := pods.look(ctx); err != nil {
		return nil, nil, err
	}
	own := identity(cfg, version)
	keeper := findKeeper(cfg, own, telemetry.metrics, log)
	source, err := newSource(cfg, rules.writer, rules.nodePorts.On, history, log)
	if err != nil {
		return nil, nil, err
	}
	problems := answers.NewProblems()
	failures := portalFailures{log, source.events, telemetry.metrics, problems, source.history}
	path, err := newDataPath(rules, source, telemetry, keeper, limit, failures.failedPortal)
	if err != nil {
		return nil, nil, err
	}
	events := newConnectionEvents(path.core, telemetry.logged, cfg.Settings)
	flows := newKernelFlows(rules, path.core, telemetry, source, state)
	probes := newProbes(rules, telemetry.metrics, path.account, source.events)
	report := newReporter(rules, source, telemetry.metrics, probes, flows.recorder, problems)
	reconciler := newReconciler(rules, path, source, report, life.Cut)
	api := newAdminAPI(version, reconciler, source, flows, telemetry, problems)
	servers := newServers(rules, probes, telemetry.metrics, source.events, flags.Values(), api)
	d := &daemon{
		log: log, telemetry: telemetry, events: events, rules: rules, flows: flows, reconciler: reconciler, source: source,
		probes: probes, state: state, keeper: keeper, own: own, end: end,
		succession: succession.New(succession.Options{
			Socket: cfg.HandOverSocket, Identity: own, Required: life.Successor, Serving: life.Serving, Log: log,
			State: state, Keeper: keeper, Core: path.core, Listeners: path.listeners, Servers: probes.sockets,
			Store: source.store, Records: telemetry.stream, Changes: source.history, Metrics: telemetry.metrics,
			Synced: source.synced, Ready: reconciler.resyncs.ready, Lost: reconciler.owned.Lost(),
			Freeze: reconciler.freeze, Resync: reconciler.resyncs.request, Queued: probes.health.QueuedUpdate,
			AwaitReplaced: servers.socket.awaitReplaced, Yield: servers.yield, End: end,
		}),
	}
	waker := parts.NewStage(func(ctx context.Context) error { return source.waker.Run(ctx, path.waits) })
	reload := parts.NewStage(func(ctx context.Context) error { return flags.Follow(ctx, cfg, log, d.applySettings) })
	prolong := parts.NewStage(func(ctx context.Context) error { return keepFlows(ctx, path.core, log) })
	// They stop in reverse: no more changes, no new connections, open ones drained or passed on, the rest cut and
	// recorded, rules removed unless the kernel carries on with them, and last the servers that show it.
	all := []parts.Part{
		servers, telemetry, events, host, rules, pods.part(source.events.NodeWarning), path, flows,
		parts.NewStage(d.succession.HandOver, d.succession.YieldIfOusted), reconciler, source, waker,
		parts.NewStage(d.succession.TakeOver), reload, parts.NewStage(d.succession.Keep), prolong,
		parts.NewStage(d.succession.Announce),
	}
	source.history.Add(changes.Change{Kind: changes.DaemonStarted, What: fmt.Sprintf("%s started", own)})
	d.subscribe(flags)
	prepareNode(cfg, source.events, log)
	return d, all, nil
}

// findKeeper finds the keeper that a configuration names, nil if there is none or the engine can give it nothing.
func findKeeper(
	cfg *config.Config, own handover.Identity, m *metrics.Metrics, log logrus.FieldLogger,
) *succession.Keeper {
	if cfg.KeepSocket == "" || cfg.Engine == config.EngineGoroutine {
		return nil
	}
	return succession.FindKeeper(cfg.KeepSocket, own, m, log)
}

// subscribe has parts told of what others learn while they run.
func (d *daemon) subscribe(flags *config.Flags) {
	m, source := d.telemetry.metrics, d.source
	m.WatchChanges(source.changes)
	m.WatchHistory(source.history)
	if d.rules.writer.Features().CountsRefused {
		m.WatchRefused(d.rules.refusals.scrape, source.has)
	}
	if tellsDrops(d.rules.cfg.Engine) {
		m.WatchReceiveBuffers(source.has)
	}
	if source.refused != nil {
		m.WatchFiles("manifests", source.refused)
	}
	if flags.File != "" {
		m.WatchFiles("configuration", flags.Refused)
	}
	metrics.ShowFeatures(metrics.Features{
		ExternalIPs: len(d.rules.cfg.ExternalIPs) > 0, ServiceCIDRs: writers.TakesServiceCIDRs(d.rules.cfg),
		Localhost: slices.Contains(d.rules.cfg.LocalhostNodePorts[:], true),
	})
	d.rules.nodePorts.Follow(d.probes.services.SetAddresses)
	source.cache.WatchNode(d.nodeChanged)
	if source.cache.Options().ServiceCIDRs {
		source.cache.WatchServiceCIDRs(d.serviceCIDRsChanged)
	}
	if d.rules.fellBack != nil {
		source.events.NodeWarning("NoIPVS", "StartKubeProxy", d.rules.fellBack.Error())
	}
}

// nodeChanged applies what the Node object says of this node. A Node that is gone changes nothing: traffic goes on.
func (d *daemon) nodeChanged(n translate.Node, known bool) {
	if !known {
		return
	}
	d.probes.health.SetEligible(n.Eligible)
	if d.rules.setNode(n) {
		d.reconciler.resyncs.requestIfReady("the Node object of this node changed")
	}
}

// serviceCIDRsChanged applies the ranges that the cluster gives Services.
func (d *daemon) serviceCIDRsChanged(all []netip.Prefix) {
	if d.rules.setServiceCIDRs(all) {
		d.reconciler.resyncs.requestIfReady("the ServiceCIDRs of the cluster changed")
	}
}

// applySettings applies settings that changed while the daemon runs.
func (d *daemon) applySettings(s config.Settings) {
	answers.SetLogLevel(d.log, s.LogLevel, d.source.history)
	d.events.applySettings(s)
	d.source.cache.SetClientAddress(s.Policy.ClientAddress)
	d.reconciler.applySettings(s)
	d.flows.recorder.SetPolicy(s.Policy)
}
