// Package daemon makes the parts of a running portald out of a configuration, starts them in order, and stops them in
// reverse. It knows how parts depend on each other, and nothing of how they work.
package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/hostinfo"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/quota"
)

// daemon is the parts, in the order in which they start.
type daemon struct {
	log        *logrus.Logger
	settings   atomic.Pointer[config.Settings] // of the last reload
	servers    *servers
	telemetry  *telemetry
	events     *connectionEvents
	host       *hostinfo.Host
	rules      *hostRules
	path       *dataPath
	flows      *kernelFlows
	reconciler *reconciler
	source     *source
	waker      *waker
	inventory  *inventory
	reload     *parts.Stage

	version  string
	instance string // of this process: no other has the same
	heritage *inheritance
	succeed  *parts.Stage // takes over from a predecessor
	keep     *parts.Stage // gives a keeper what is open
	prolong  *parts.Stage // has the kernel know the flows of UDP sessions
	precede  *parts.Stage // hands over to a successor
	tells    *parts.Stage // announces that the daemon serves
	keeping  *keeping     // nil: no keeper was there at the start
	life     Life
	end      context.CancelCauseFunc // of the daemon, set when it starts
}

// Life is what the daemon and the service that it runs as tell each other. The zero Life is that of no service.
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
	d, err := newDaemon(flags, cfg, log, version)
	if err != nil {
		return err
	}
	d.life, d.reconciler.cut = life, life.Cut
	told := ctx
	if life.Started == nil {
		life.Started = func() {}
	}
	ctx, d.end = context.WithCancelCause(context.WithoutCancel(told))
	defer d.end(nil)
	defer context.AfterFunc(told, func() { d.toldToEnd(context.Cause(told)) })()
	err = parts.Run(ctx, d.parts(), life.Started, d.stopping)
	d.keeping.bye()
	if !errors.Is(context.Cause(ctx), errHandedOver) {
		return err
	}
	if err != nil { // as where the disk is full: whoever started this one is not to start it again for that
		d.log.WithError(err).Warn("Leaving the node to another portald, without an orderly end")
	}
	d.rest(told)
	return nil
}

// toldToEnd ends the daemon, once what it carries is left to the next one if that is about to start.
func (d *daemon) toldToEnd(cause error) {
	d.rules.interrupted.Store(errors.Is(cause, ErrInterrupted))
	if d.leave(context.Background()) {
		cause = errHandedOver
	}
	d.end(cause)
}

// stopping has no more connections sent here, unless another daemon serves this node.
func (d *daemon) stopping() {
	if !d.heritage.other.Load() {
		d.servers.health.Draining()
	}
}

// ErrInterrupted is the cause of Run's ctx where somebody at a terminal ends the daemon: see config.OnExit.
var ErrInterrupted = errors.New("interrupted")

// errHandedOver is why a daemon ends that a successor has taken the place of.
var errHandedOver = errors.New("a successor serves this node")

// How often a daemon that was succeeded looks for the one that serves the node, and how often in a row it finds none
// before it takes it for gone.
const (
	lookEvery = time.Second
	missedFor = 5
)

// rest waits until a daemon is told to end that was succeeded in a pod: the kubelet would start its container again.
// Which it shall once no daemon serves the node any more.
func (d *daemon) rest(told context.Context) {
	if _, pod := os.LookupEnv("KUBERNETES_SERVICE_HOST"); !pod {
		return
	}
	d.log.Info("Hand-over done: idle until the pod is deleted")
	for missed := 0; missed < missedFor; {
		select {
		case <-told.Done():
			return
		case <-time.After(lookEvery):
		}
		if missed++; othersServe(d.rules.cfg) || othersHold(d.rules.cfg) {
			missed = 0
		}
	}
	d.log.Warn("The successor is gone, and no other portald serves this node: ending, to be started again")
}

// newDaemon makes the parts. Nothing runs yet, and the host's rules are unchanged.
func newDaemon(flags *config.Flags, cfg *config.Config, log *logrus.Logger, version string) (d *daemon, err error) {
	d = &daemon{
		log: log, version: version, instance: rand.Text(), heritage: newInheritance(cfg.HandOverSocket),
	}
	d.settings.Store(&cfg.Settings)
	quietLibraries(log)
	limit := hostinfo.RaiseNoFile(log, version)
	if d.telemetry, err = newTelemetry(cfg, log, version); err != nil {
		return nil, err
	}
	if d.host, err = hostinfo.New(cfg, log); err != nil {
		return nil, err
	}
	if d.rules, err = newHostRules(cfg, &d.settings, d.host, d.telemetry.metrics, log); err != nil {
		return nil, err
	}
	cfg = d.rules.cfg
	d.keeping = d.findKeeper(cfg)
	account := quota.NewAccount(budgetOf(cfg, limit, d.keeping, log))
	if d.path, err = newDataPath(cfg, d.host, d.rules, d.telemetry, account, d.whoIs(cfg), d.needPods, d.heritage,
		d.keeping, log); err != nil {
		return nil, err
	}
	d.events = newConnectionEvents(d.path.core, d.telemetry.logged, cfg.Settings)
	if d.source, err = newSource(cfg, d.rules.writer, d.rules.nodePorts.On, log); err != nil {
		return nil, err
	}
	d.waker = d.newWaker()
	d.flows = newKernelFlows(cfg, d.host, d.path.core, d.telemetry, d.whoIs(cfg), d.heritage, log)
	d.inventory = &inventory{
		store: d.source.store, mode: cfg.Mode, listeners: d.path.listeners, totals: d.telemetry.metrics.Totals,
		openBytes: d.path.core.OpenBytes,
		held:      func(f service.Frontend) *portal.Portal { return d.reconciler.dataplane.Held(f) },
		problems:  newProblems(), log: log,
	}
	d.servers = newServers(cfg, d.telemetry.metrics, d.source.events, account, flags.Values(), d.adminAPI(version),
		d.heritage, log)
	metrics.ShowFeatures(metrics.Features{
		ExternalIPs: len(cfg.ExternalIPs) > 0, ServiceCIDRs: writers.TakesServiceCIDRs(cfg),
	})
	d.connect()
	d.reload = parts.NewStage(func(ctx context.Context) error { return flags.Follow(ctx, cfg, log, d.applySettings) })
	if flags.File != "" {
		d.telemetry.metrics.WatchFiles("configuration", flags.Refused)
	}
	prepareNode(cfg, d.source.events, log)
	return d, nil
}

// connect makes the reconciler, which needs most other parts, and registers callbacks between parts.
func (d *daemon) connect() {
	events, metrics := d.source.events, d.telemetry.metrics
	metrics.WatchChanges(d.source.changes)
	if d.source.refused != nil {
		metrics.WatchFiles("manifests", d.source.refused)
	}
	report := &reporter{
		log: d.log, events: events, metrics: metrics, servers: d.servers, resyncs: newResyncs(),
		flows:    d.flows.recorder,
		problems: d.inventory.problems, nodePorts: d.rules.nodePorts,
		disturbances: newDisturbances(d.rules.writer, events, metrics, d.servers.health, d.log),
	}
	d.rules.listeners, d.rules.failedPortal = d.path.listeners, report.failedPortal
	d.reconciler = newReconciler(d.rules, d.path, d.host, d.source, d.heritage, report)
	d.rules.heritage = d.heritage
	d.rules.nodePorts.Follow(d.servers.services.SetAddresses)
	d.succeed, d.precede, d.tells = parts.NewStage(d.takeOver), parts.NewStage(d.handOver, d.yieldIfOusted),
		parts.NewStage(d.announce)
	d.keep, d.prolong = parts.NewStage(d.keepAll), parts.NewStage(d.keepFlows)
	d.source.cache.WatchNode(d.nodeChanged)
	if d.source.cache.Options().ServiceCIDRs {
		d.source.cache.WatchServiceCIDRs(d.serviceCIDRsChanged)
	}
	if d.rules.fellBack != nil {
		events.NodeWarning("NoIPVS", "StartKubeProxy", d.rules.fellBack.Error())
	}
}

// parts are in the order in which they start. They stop in reverse: no more changes, no new connections, open ones
// drained or passed on, the rest cut and recorded, rules removed unless the kernel carries on with them, and last the
// servers that show it.
func (d *daemon) parts() []parts.Part {
	return []parts.Part{
		d.servers, d.telemetry, d.events, d.host, d.rules, d.path, d.flows, d.precede, d.reconciler, d.source, d.waker,
		d.succeed, d.reload, d.keep, d.prolong, d.tells,
	}
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

// serviceCIDRsChanged applies the ranges that the cluster gives Services.
func (d *daemon) serviceCIDRsChanged(all []netip.Prefix) {
	if d.rules.setServiceCIDRs(all) {
		d.reconciler.resyncs.requestIfReady()
	}
}

// applySettings applies settings that changed while the daemon runs.
func (d *daemon) applySettings(s config.Settings) {
	d.log.SetLevel(s.LogLevel)
	d.events.applySettings(s)
	d.reconciler.applySettings(s)
	d.flows.recorder.SetPolicy(s.Policy)
}
