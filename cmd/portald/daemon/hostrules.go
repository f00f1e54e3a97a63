package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/hostinfo"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/succession"
	"github.com/portald/portald/proxy/userspace"
)

// hostRules are the rules on the host: the writer of portals, and the diversion of replies to clients' own addresses.
type hostRules struct {
	cfg       *config.Config // names the writer in use, which may be the fallback
	settings  *atomic.Pointer[config.Settings]
	log       *logrus.Logger
	host      *hostinfo.Host
	nodePorts *hostinfo.NodePorts
	writer    portal.Writer
	diversion *hostinfo.Diversion
	refusals  *refusals
	state     *succession.State
	fellBack  error // why the writer is not the configured one

	direct *userspace.Direct // nil: the writer redirects

	interrupted atomic.Bool // the daemon ends by SIGINT
}

func newHostRules(
	ctx context.Context, cfg *config.Config, settings *atomic.Pointer[config.Settings], h *hostinfo.Host,
	state *succession.State, metrics *metrics.Metrics, log *logrus.Logger,
) (*hostRules, error) {
	own, err := platform.LocalAddresses()
	if err != nil {
		return nil, err
	}
	r := &hostRules{
		cfg: cfg, settings: settings, log: log, host: h, state: state, nodePorts: hostinfo.NewNodePorts(cfg, h, log),
	}
	if writers.Direct(cfg) {
		r.direct = userspace.NewDirect()
	}
	err = r.open(ctx, writers.Deps{
		NodePorts: r.nodePorts.Within(), NodeAddresses: own, LocalDetector: h.Detector.Rules(), Log: log,
		Failed:        func(family inet.Family, partial bool) { r.countFailure(metrics, family, partial) },
		CleanupFailed: func(f inet.Family) { metrics.NFTablesCleanupFailed(f.String()) },
		RuleCount:     func(f inet.Family, table string, rules int) { metrics.Rules(f.String(), table, rules) },
		Wrote:         func(f inet.Family, table string, rules int) { metrics.RulesLast(f.String(), table, rules) },
		Listeners:     r.direct,
		FailedPortal:  r.direct.Failed,
		Carried:       r.direct.Carried,
		Refused:       func(p portal.Refused) { metrics.RefusedPackets(p.Owner, p.Packets, p.Since) },
	})
	if err != nil {
		return nil, err
	}
	if r.writer.Features().DropsInvalid {
		metrics.WatchInvalidDropped((&invalidDrops{read: r.writer.InvalidDropped, log: log}).dropped)
	}
	r.refusals = newRefusals(r.writer, log)
	r.diversion = hostinfo.NewDiversion(writers.NamesOf(r.cfg).Divert, r.writer, h, log)
	return r, nil
}

// open opens the configured writer, or the fallback for a kernel without IPVS.
func (r *hostRules) open(ctx context.Context, deps writers.Deps) (err error) {
	r.cfg = writers.ChooseVariant(ctx, r.cfg, r.log)
	r.writer, err = writers.New(ctx, r.cfg, deps)
	unusable := err != nil && !writers.Busy(err)
	if fallback := r.cfg.IPVS.Fallback; unusable && r.cfg.Writer == writers.IPVS && fallback != "" {
		r.fellBack = fmt.Errorf("%s is used instead of IPVS: %w", fallback, err)
		r.log.Warn(r.fellBack)
		r.cfg = withoutIPVS(r.cfg)
		r.writer, err = writers.New(ctx, r.cfg, deps)
	}
	return err
}

// withoutIPVS returns the configuration with the fallback for a kernel without IPVS.
func withoutIPVS(cfg *config.Config) *config.Config {
	out := *cfg
	out.Writer = cfg.IPVS.Fallback
	if out.ProxyMode == writers.IPVS {
		out.ProxyMode = out.Writer
	}
	return &out
}

// countFailure counts a transaction that the kernel refused.
func (r *hostRules) countFailure(metrics *metrics.Metrics, family inet.Family, partial bool) {
	if r.cfg.Writer == writers.NFTables {
		metrics.NFTablesFailed(family.String())
		return
	}
	metrics.RestoreFailed(family.String(), partial)
}

// setNode applies what the Node object says of this node. It returns true if all rules have to be written again.
func (r *hostRules) setNode(n translate.Node) (changed bool) {
	if r.host.Detector.SetPodCIDRs(n.PodCIDRs) {
		changed = true
		if err := r.writer.SetLocalDetector(r.host.Detector.Rules()); err != nil {
			r.log.WithError(err).Warn("Cannot apply changed pod CIDRs: the same clients count as inside the " +
				"cluster as before")
		}
	}
	return r.setNodePorts(r.nodePorts.SetNode(n.Addresses)) || changed
}

// addressesChanged applies the addresses of this host. It returns true if all rules have to be written again.
func (r *hostRules) addressesChanged() bool { return r.setNodePorts(r.nodePorts.Refresh()) }

// setNodePorts has the writer serve NodePorts where they are to be served now, if that has changed. It returns true if
// all rules have to be written again: a range has the addresses that come later, where the kernel looks for them.
func (r *hostRules) setNodePorts(changed bool) (again bool) {
	return r.writer.SetNodePortAddresses(r.nodePorts.Within()) || changed && writers.ListsNodeAddresses(r.cfg)
}

// setServiceCIDRs applies the ranges that the cluster gives Services. It returns true if all rules have to be written
// again.
func (r *hostRules) setServiceCIDRs(all []netip.Prefix) bool {
	changed, err := r.writer.SetServiceCIDRs(all)
	if err != nil {
		r.log.WithError(err).Warn("Cannot apply changed ServiceCIDRs: the same addresses are dropped as before")
	}
	return changed
}

// toKernel tells whether the kernel is to carry all Services on when this daemon ends.
func (r *hostRules) toKernel() bool { return r.settings.Load().OnExit.ToKernel(r.interrupted.Load()) }

// start has nothing to start.
func (r *hostRules) Start(context.CancelCauseFunc) {}

// stop removes all rules and the diversion of replies from the host, unless the kernel carries Services on with them,
// or another daemon does, which may have started while this one drained: then they are that one's.
func (r *hostRules) Stop() error {
	if r.toKernel() || r.state.OtherServes() {
		return nil
	}
	if r.state.AnotherAnswers() {
		r.log.Info("Another portald serves this node now: leaving its rules in place")
		return nil
	}
	return errors.Join(writers.NamesOf(r.cfg).RemoveDivert(), parts.WithTimeout(r.writer.Cleanup))
}
