package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/admin"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/service"
)

// hostRules are the rules on the host: the writer of portals, and the routing of replies to clients' own addresses.
type hostRules struct {
	cfg      *config.Config // names the writer in use, which may be the fallback
	settings *atomic.Pointer[config.Settings]
	log      logrus.FieldLogger
	host     *host
	writer   portal.HostWriter
	fellBack error // why the writer is not the one asked for
	diverted sync.Once
}

func newHostRules(
	cfg *config.Config, settings *atomic.Pointer[config.Settings], h *host, metrics *admin.Metrics, log logrus.FieldLogger,
) (r *hostRules, err error) {
	own, err := platform.LocalAddresses()
	if err != nil {
		return nil, err
	}
	r = &hostRules{cfg: cfg, settings: settings, log: log, host: h}
	deps := writers.Deps{
		NodePorts: writers.NodePortAddresses(cfg, nil), NodeAddresses: own, Inside: h.detector.rules(), Log: log,
		Failed: func(family service.IPFamily, partial bool) { r.countFailure(metrics, family, partial) },
		Held:   func(f service.IPFamily, table string, rules int) { metrics.Rules(f.String(), table, rules) },
		Wrote:  func(f service.IPFamily, table string, rules int) { metrics.RulesLast(f.String(), table, rules) },
	}
	r.writer, err = writers.New(cfg, deps)
	if err != nil && cfg.Writer == writers.IPVS && cfg.IPVS.Fallback != "" {
		r.fellBack = fmt.Errorf("%s is used instead of IPVS: %w", cfg.IPVS.Fallback, err)
		log.Warn(r.fellBack)
		r.cfg = withoutIPVS(cfg)
		r.writer, err = writers.New(r.cfg, deps)
	}
	return r, err
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
func (r *hostRules) countFailure(metrics *admin.Metrics, family service.IPFamily, partial bool) {
	if r.cfg.Writer == writers.NFTables {
		metrics.NFTablesFailed(family.String())
		return
	}
	metrics.RestoreFailed(family.String(), partial)
}

// setNode applies what the Node object says of this node. It returns true if all rules have to be written again.
func (r *hostRules) setNode(n translate.Node) (changed bool) {
	if r.host.detector.setPodCIDRs(n.PodCIDRs) {
		changed = true
		if err := r.writer.SetInside(r.host.detector.rules()); err != nil {
			r.log.WithError(err).Warn("Changed pod CIDRs are not applied: who counts as inside the cluster stays as it was")
		}
	}
	if r.cfg.NodePorts.Primary {
		changed = r.writer.SetNodePortAddresses(writers.NodePortAddresses(r.cfg, n.Addresses)) || changed
	}
	return changed
}

// divertReplies has replies to clients' own addresses delivered to this host, from the first service port on that asks
// for transparent dials until the end: its rules match every packet of the host. It returns true the first time; the
// mark takes effect once all rules are written again.
func (r *hostRules) divertReplies() (first bool) {
	r.diverted.Do(func() {
		first = true
		divert := writers.NamesOf(r.cfg).Divert
		err := divert.Add(service.IPv4)
		if err == nil && r.writer.IPv6() {
			err = divert.Add(service.IPv6)
		}
		if err != nil {
			r.log.WithError(err).Warn("Endpoints see this node's address instead of clients': replies cannot be diverted")
			return
		}
		r.writer.SetMark(divert.Mark)
		r.log.Info("Endpoints see clients' own addresses where Services ask for that; replies are diverted to this host")
	})
	return first
}

// returns implements splice.Options.Returns: replies do not come back before they are diverted.
func (r *hostRules) returns(client, endpoint netip.Addr) bool {
	return r.writer.Diverts(service.FamilyOf(client)) && r.host.paths.Returns(client, endpoint)
}

// returnsKnown implements splice.Options.ReturnsKnown.
func (r *hostRules) returnsKnown(client, endpoint netip.Addr) (returns, known bool) {
	if !r.writer.Diverts(service.FamilyOf(client)) {
		return false, true
	}
	return r.host.paths.ReturnsKnown(client, endpoint)
}

// start has nothing to start.
func (r *hostRules) start(context.CancelCauseFunc) {}

// stop removes all rules and the diversion of replies from the host, unless the kernel carries Services on with them:
// then another daemon may own them by now.
func (r *hostRules) stop() error {
	if r.settings.Load().HandOver {
		return nil
	}
	return errors.Join(writers.NamesOf(r.cfg).RemoveDivert(), withTimeout(r.writer.Cleanup))
}
