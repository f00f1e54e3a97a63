package daemon

import (
	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/hostinfo"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/userspace"
)

// dataPath carries connections in userspace: the core, its engine, and the listeners. stop cuts what is
// still open.
type dataPath struct {
	*parts.Stage
	core      *splice.Core
	listeners *userspace.Carrier
}

func newDataPath(
	cfg *config.Config, h *hostinfo.Host, rules *hostRules, to *telemetry, account *quota.Account, whoIs whoIs,
	needPods func(*service.Port), heritage *inheritance, k *keeping, log *logrus.Logger,
) (*dataPath, error) {
	core, err := splice.New(splice.Options{
		Policy: cfg.Settings.Policy, UDPSessions: cfg.UDPSessions, Account: account,
		SourcePorts: splice.PortSpan(cfg.ProxyPorts), SpareSource: hostinfo.ReservedPorts(log), Mark: hostinfo.DialMark(log),
		Start: platform.ClockStart(), Listen: heritage.listen, Listening: k.socketChanged,
		TCPInfo: true, WhoIs: whoIs, NeedPods: needPods, Observe: to.observer, Warn: to.shortages.report,
		OriginalDst: platform.OriginalDst, OriginalDstUDP: h.Conntrack.OriginalDstUDP,
		IsLocal: h.Detector.IsLocal, IsLocalKnown: h.Detector.IsLocalKnown,
		NodeAddresses: h.NodeAddresses(cfg), Returns: rules.diversion.Returns, ReturnsKnown: rules.diversion.ReturnsKnown,
	}, openEngine(cfg.Engine, k, log))
	if err != nil {
		return nil, err
	}
	listeners := userspace.New(userspace.Options{
		Core: core, Ports: cfg.ProxyPorts, Log: log, Localhost: cfg.LocalhostNodePorts, Direct: writers.Direct(cfg),
		Inherit: heritage.front, Reaches: hostinfo.Reaches(core.Options().Mark),
	})
	to.metrics.WatchActive(listeners.Fronts().Active)
	to.metrics.WatchDataPath(metrics.DataPath{
		Stats: core.Stats, BusiestEndpoint: listeners.BusiestEndpoint,
		Ejected: listeners.Endpoints().Ejections, BudgetExhausted: listeners.Endpoints().BudgetExhausted,
		ProxyPorts: cfg.ProxyPorts.Size(), ProxyPortsInUse: listeners.ProxyPortsInUse,
	})
	to.metrics.WatchDrains(listeners.Endpoints().Drains)
	return &dataPath{parts.NewStage(core.Run, listeners.Recheck), core, listeners}, nil
}
