package daemon

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/kernel"
	"github.com/portald/portald/proxy/succession"
)

// reconciler keeps the dataplane in step with the store. When it stops, the kernel carries Services on until the next
// start, or no portal is left; then open connections are drained.
type reconciler struct {
	*parts.Stage
	log       logrus.FieldLogger
	settings  *atomic.Pointer[config.Settings] // of the last reload
	rules     *hostRules
	path      *dataPath
	resyncs   *resyncs
	dataplane *dataplane.Dataplane
	kernel    *kernel.Carrier // nil: the kernel carries no Service here
	stopwatch *proxy.Stopwatch
	owned     *succession.Ownership
	calls     proxy.Calls
	cut       <-chan struct{} // Life.Cut
	state     *succession.State
	ending    chan struct{} // closed when the loop is to end

	disturbances *disturbances
}

// signPeriod is how often to look for a sign that others changed rules. It takes microseconds.
const signPeriod = 500 * time.Millisecond

func newReconciler(
	rules *hostRules, path *dataPath, src *source, report *reporter, cut <-chan struct{},
) *reconciler {
	cfg, h, state := rules.cfg, rules.host, rules.state
	r := &reconciler{
		log: rules.log, settings: rules.settings, rules: rules, path: path, resyncs: report.resyncs,
		calls: make(proxy.Calls), state: state, cut: cut, ending: make(chan struct{}),
		disturbances: report.disturbances,
	}
	options := dataplane.Options{
		Writer: rules.writer, Mode: cfg.Mode, Userspace: path.listeners,
		Own: h.Addresses.Contains, Closed: report.metrics.Forget, Contested: report.contested, Serving: r.serving,
		Inherits: func() bool { return state.HasRules() && !r.resyncs.isReady() }, Adopted: report.adopted,
		Rewritten: report.rewritten,
		Refused:   report.refused, Quarantined: report.metrics.SetQuarantined, Warn: report.flowsNotSeen,
	}
	if !writers.Direct(cfg) { // else the kernel neither carries Services nor translates flows
		r.kernel = kernel.New(kernel.Options{
			Node: cfg.NodeName, Bounded: report.bounded, Offers: rules.writer.Offers,
			Algorithm:     func() service.Algorithm { return r.settings.Load().Policy.Algorithm },
			NodeAddresses: h.NodeAddresses(cfg),
		})
		options.Kernel = r.kernel
		options.DeleteFlows = report.metrics.CountDeletedFlows(platform.DeleteFlows)
		options.FlowPeriod = cfg.SyncPeriod
	}
	r.dataplane = dataplane.New(options)
	r.checkAlgorithm()
	r.stopwatch = &proxy.Stopwatch{Dataplane: r.dataplane, Sweeper: r.dataplane}
	report.probes.health.Watch((&liveness{core: path.core, stopwatch: r.stopwatch, log: rules.log}).check)
	r.owned = succession.NewOwnership(r.stopwatch, state)
	loop := &proxy.Loop{
		Store: src.store, Dataplane: r.owned, Sweeper: r.owned, Log: rules.log,
		Watcher: proxy.Watcher{Queued: report.queued, Synced: report.synced, Damaged: report.disturbances.damaged},
		Again:   r.resyncs.requests, Due: r.dataplane.Due(), Calls: r.calls,
		MinSync: cfg.MinSync, AuditPeriod: cfg.SyncPeriod, SignPeriod: signPeriod,
	}
	r.Stage = parts.NewStage(
		func(ctx context.Context) error { return loop.Run(ctx, both(ctx, src.synced, state.RulesAllowed())) },
		func(ctx context.Context) error { return r.removeLeftovers(ctx, cfg) },
		r.disturbances.listen,
		trimMemory(r.resyncs.ready),
		func(ctx context.Context) error { return r.followAddresses(ctx, h.Addresses.Changed(), src.store) },
	)
	return r
}

// serving implements dataplane.Options.Serving. Before the first resync nothing is requested: it writes all rules
// anyway.
func (r *reconciler) serving(p *service.Port) {
	if p.Policy.Or(r.settings.Load().Policy).ClientAddress == service.AddressTransparent && r.rules.diversion.Enable() {
		r.resyncs.requestIfReady(whyTransparent)
	}
}

// whyTransparent is why everything is applied again once the first Service has its clients' addresses kept.
const whyTransparent = "clientAddress: transparent came into use"

// followAddresses has portals written again whose source ranges contain this node by now, or no longer, since its
// addresses have changed. Other service ports are not touched, unless rules list the addresses of NodePorts.
func (r *reconciler) followAddresses(ctx context.Context, changed <-chan struct{}, store *service.Store) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		if r.rules.addressesChanged() {
			r.resyncs.requestIfReady("the addresses of this node changed")
		}
		if r.kernel == nil {
			continue
		}
		var others []service.PortName
		if r.calls.Do(ctx, func() { others = r.kernel.Readmit() }) == nil {
			store.Touch(others...)
		}
	}
}

// removeLeftovers removes the rules of earlier runs in other modes once the rules of this one are written. It runs
// beside the loop, since it executes commands that changes of Services must not wait for.
func (r *reconciler) removeLeftovers(ctx context.Context, cfg *config.Config) error {
	select {
	case <-ctx.Done():
	case <-r.resyncs.ready:
		if !r.state.WhenServing(ctx) {
			return nil
		}
		writers.CleanupOthers(ctx, cfg, func() bool { return !r.state.NoticeOusted() }, r.log)
	}
	return nil
}

// checkAlgorithm says so if the kernel, which carries Services by default, does not have the daemon's algorithm.
func (r *reconciler) checkAlgorithm() {
	a, cfg := r.settings.Load().Policy.Algorithm, r.rules.cfg
	if cfg.Mode == service.ModeKernel && a != service.RoundRobin && !r.rules.writer.Offers(a) {
		r.log.Warnf("algorithm: %s is not possible by the kernel with the writer %s, which chooses endpoints in its own way",
			a, cfg.Writer)
	}
}

// applySettings applies settings that changed while the daemon runs.
func (r *reconciler) applySettings(s config.Settings) {
	old := r.settings.Swap(&s)
	if old.Policy.Algorithm != s.Policy.Algorithm {
		r.checkAlgorithm()
		r.resyncs.request("the setting algorithm changed") // rules of the kernel choose by it
	}
	r.path.core.SetPolicy(s.Policy)
	if old.Policy.WaitForEndpoint != s.Policy.WaitForEndpoint {
		r.resyncs.request("the setting waitForEndpoint changed") // portals of Services without endpoints
	}
	if s.Policy.ClientAddress == service.AddressTransparent && r.rules.diversion.Enable() {
		r.resyncs.request(whyTransparent)
	}
}

// both returns a channel that is closed when both others are, or not any more when ctx has ended.
func both(ctx context.Context, a, b <-chan struct{}) <-chan struct{} {
	all := make(chan struct{})
	go func() {
		for _, one := range []<-chan struct{}{a, b} {
			select {
			case <-one:
			case <-ctx.Done():
				return
			}
		}
		close(all)
	}()
	return all
}

// freeze has the loop do nothing until thaw, or until it ends.
func (r *reconciler) freeze(ctx context.Context) (thaw func(), err error) {
	frozen, released := make(chan struct{}), make(chan struct{})
	wait, give := context.WithTimeout(ctx, freezeTime)
	defer give()
	ended := make(chan error, 1)
	go func() {
		ended <- r.calls.Do(wait, func() {
			close(frozen)
			select {
			case <-released:
			case <-r.ending:
			}
		})
	}()
	select {
	case <-frozen:
		return func() { close(released) }, nil
	case err := <-ended:
		return nil, fmt.Errorf("stop the reconcile loop: %w", err)
	}
}

// freezeTime is how long a sync that is under way may take.
const freezeTime = 30 * time.Second
