package daemon

import (
	"github.com/portald/portald/cmd/portald/daemon/hostinfo"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession"
	"github.com/portald/portald/proxy/userspace"
)

// dataPath carries connections in userspace: the core, its engine, and the listeners. Its stop cuts what is still open.
type dataPath struct {
	*parts.Stage
	core      *splice.Core
	listeners *userspace.Carrier
	account   *quota.Account
}

// listenersPart is which part of the descriptors listeners of TCP service ports may have, before these share some.
const listenersPart = 4

// newDataPath makes the data path of a process that may open so many descriptors.
func newDataPath(
	rules *hostRules, src *source, to *telemetry, k *succession.Keeper, limit uint64, failed func(portal.Portal, error),
) (*dataPath, error) {
	cfg, h, log, inherited := rules.cfg, rules.host, rules.log, rules.state.Inherited
	account := quota.NewAccount(budgetOf(cfg, limit, k, log))
	core, err := splice.New(splice.Options{
		Policy: cfg.Settings.Policy, UDPSessions: cfg.UDPSessions, Account: account,
		SourcePorts: splice.SourcePorts{Range: cfg.ProxyPorts, Reserved: hostinfo.ReservedPorts(log)},
		Mark:        hostinfo.DialMark(log),
		Start:       platform.ClockStart(), Listen: inherited.Listen, Listening: k.SocketChanged,
		TCPInfo: true, WhoIs: src.whoIs, NeedPods: src.waker.Need, Observe: to.observer, Warn: to.shortages.report,
		OriginalDst: platform.OriginalDst, OriginalDstUDP: h.Conntrack.OriginalDstUDP,
		IsLocal: h.Detector.IsLocal, IsLocalKnown: h.Detector.IsLocalKnown, NodeAddresses: h.NodeAddresses(cfg),
		Returns: rules.diversion.Returns, ReturnsKnown: rules.diversion.ReturnsKnown,
	}, openEngine(cfg.Engine, k, log))
	if err != nil {
		return nil, err
	}
	src.watch(core.Payload.Changed)
	listeners := userspace.New(userspace.Options{
		Core: core, Ports: cfg.ProxyPorts, Listeners: int(account.Most(quota.Descriptors) / listenersPart), Log: log,
		Localhost: cfg.LocalhostNodePorts, Direct: rules.direct, Failed: failed,
		Inherit: inherited.Front, Reaches: hostinfo.Reaches(core.Options().Mark),
	})
	to.metrics.WatchActive(listeners.Fronts().Active)
	to.metrics.WatchDataPath(metrics.DataPath{
		Stats: core.Stats, BusiestEndpoint: listeners.BusiestEndpoint,
		Ejected: listeners.Endpoints().Ejections, BudgetExhausted: listeners.Endpoints().BudgetExhausted,
		ProxyPorts: cfg.ProxyPorts.Size(), ProxyPortsInUse: listeners.ProxyPortsInUse,
		PortSharers: listeners.PortSharers, LoopbackListeners: listeners.Fronts().LoopbackListeners,
	})
	to.metrics.WatchDrains(listeners.Endpoints().Drains)
	ejected := ejections{listeners.Endpoints(), src.store, src.history}
	return &dataPath{parts.NewStage(core.Run, listeners.Recheck, ejected.run), core, listeners, account}, nil
}

// waits tells whether clients of a Service wait for an endpoint.
func (p *dataPath) waits(svc service.Name) bool { return p.core.Waiting(svc) > 0 }
