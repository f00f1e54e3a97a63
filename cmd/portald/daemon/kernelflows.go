package daemon

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession"
)

// kernelFlows makes records of connections that the kernel carries.
type kernelFlows struct {
	*parts.Stage
	recorder *flows.Recorder
}

func newKernelFlows(
	rules *hostRules, core *splice.Core, to *telemetry, src *source, state *succession.State,
) *kernelFlows {
	cfg, h, log := rules.cfg, rules.host, rules.log
	lost, ipvs := &lostFlows{to: to, log: log}, cfg.Writer == writers.IPVS
	to.metrics.WatchKernelRecords(lost.n.Load, src.has)
	recorder := flows.New(flows.Options{
		Mode: cfg.Mode, Policy: cfg.Settings.Policy, Own: h.Addresses.Contains, WhoIs: src.whoIs, NextID: core.NextID,
		Listener: func(at netip.AddrPort) bool {
			return cfg.ProxyPorts.Contains(at.Port()) && h.Addresses.Contains(at.Addr())
		},
		Observe: to.kernelRecord, Lost: lost.add, Log: log,
		Account:  func() (func(), bool) { return accountFlows(log) },
		Timeouts: func() flows.Timeouts { return flowTimeouts(log) }, List: listFlows(ipvs),
		Open: openFlowEvents(ipvs),
	})
	return &kernelFlows{parts.NewStage(state.AfterTakeover(recorder.Run)), recorder}
}

// lostFlows counts the ends of flows that were lost, tells followers of records, and logs it once a period.
type lostFlows struct {
	to   *telemetry
	log  logrus.FieldLogger
	n    atomic.Uint64
	said uint64
	next time.Time
}

// lostPeriod is the time between two log lines about lost events.
const lostPeriod = time.Minute

// add implements flows.Options.Lost.
func (l *lostFlows) add(events uint64) {
	l.to.stream.Lost(events)
	n := l.n.Add(events)
	if now := time.Now(); now.After(l.next) {
		l.log.Warnf("Lost %d records of connections that the kernel carries: they end faster than they are "+
			"recorded; record failures only (kernelRecords), and see portald_kernel_records_lost_total", n-l.said)
		l.said, l.next = n, now.Add(lostPeriod)
	}
}
