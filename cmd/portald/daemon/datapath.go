package daemon

import (
	"errors"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/userspace"
)

// dataPath carries connections in userspace: the core, its engine, and the listeners. stop cuts what is
// still open.
type dataPath struct {
	*stage
	core      *splice.Core
	listeners *userspace.Carrier
}

func newDataPath(
	cfg *config.Config, h *host, rules *hostRules, to *telemetry, account *splice.Account, whoIs whoIs,
	needPods func(*service.Port), heritage *inheritance, k *keeping, log *logrus.Logger,
) (*dataPath, error) {
	core, err := splice.New(splice.Options{
		Policy: cfg.Settings.Policy, UDPSessions: cfg.UDPSessions, Account: account,
		SourcePorts: splice.PortSpan(cfg.ProxyPorts), SpareSource: reservedPorts(log), Mark: dialMark(log),
		Start: platform.ClockStart(), Listen: heritage.listen, Listening: k.socketChanged,
		TCPInfo: true, WhoIs: whoIs, NeedPods: needPods, Observe: to.observer, Warn: to.shortages.report,
		OriginalDst: platform.OriginalDst, OriginalDstUDP: h.conntrack.OriginalDstUDP,
		IsLocal: h.detector.isLocal, IsLocalKnown: h.detector.isIsLocalKnown,
		NodeAddresses: h.nodeAddresses(cfg), Returns: rules.diversion.returns, ReturnsKnown: rules.diversion.returnsKnown,
	}, openEngine(cfg.Engine, k, log))
	if err != nil {
		return nil, err
	}
	to.watch(core, cfg.Settings)
	listeners := userspace.New(userspace.Options{
		Core: core, Ports: cfg.ProxyPorts, Log: log, Localhost: cfg.LocalhostNodePorts, Direct: writers.Direct(cfg),
		Inherit: heritage.front, Reaches: reaches(core.Options().Mark),
	})
	to.metrics.WatchActive(listeners.Active)
	to.metrics.WatchDataPath(metrics.DataPath{
		Stats: core.Stats, BusiestEndpoint: listeners.BusiestEndpoint,
		Ejected: listeners.Endpoints().Ejections, BudgetExhausted: listeners.Endpoints().BudgetExhausted,
		ProxyPorts: cfg.ProxyPorts.Size(), ProxyPortsInUse: listeners.ProxyPortsInUse,
	})
	to.metrics.WatchDrains(listeners.Endpoints().Drains)
	return &dataPath{newStage(core.Run, listeners.Recheck), core, listeners}, nil
}

// dialMark returns the mark of packets to endpoints, 0 where this process may not set it.
func dialMark(log logrus.FieldLogger) uint32 {
	mark := uint32(portal.DefaultDials)
	err := platform.MayMark(mark)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0 // nothing redirects what the daemon dials either
	}
	if err != nil {
		log.WithError(err).Warn("Cannot mark connections to endpoints, which takes the capability NET_ADMIN: an " +
			"endpoint that is a Service's own address makes portald dial itself, up to the limit of open " +
			"descriptors")
		return 0
	}
	return mark
}
