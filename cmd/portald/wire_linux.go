package main

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy"
	"github.com/portald/portald/proxy/admin"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/kernel"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/kube/watch"
	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/userspace"
)

// daemon is everything that runs, wired together.
type daemon struct {
	flags    *config.Flags
	cfg      *config.Config
	settings atomic.Pointer[config.Settings] // those of the last reload
	log      *logrus.Logger

	cache     *translate.Cache
	source    source
	events    *watch.Recorder // nil without an API server
	host      *host
	account   *splice.Account
	core      *splice.Core
	writer    portal.HostWriter
	fellBack  error // why it is another than was asked for
	listeners *userspace.Carrier
	dataplane *dataplane.Dataplane
	loop      *proxy.Loop
	stopwatch *proxy.Stopwatch // of what the loop has the dataplane do
	again     chan struct{}    // has the loop apply all anew

	metrics  *admin.Metrics
	health   *admin.Health
	services *admin.ServiceHealth
	trouble  *trouble
	records  *admin.ConnectionLog // nil where none is asked for
	servers  []*admin.Server
	ready    atomic.Bool   // the first sync is done
	stands   chan struct{} // closed then
	diverted sync.Once     // replies to clients' addresses are led back
	hangs    sync.Once     // that is said once
}

// run is the daemon's life: it returns when ctx has ended and everything is drained, or when it cannot start.
func run(ctx context.Context, flags *config.Flags, cfg *config.Config, log *logrus.Logger) error {
	if err := checkRuntime(); err != nil {
		return err
	}
	d, err := wire(flags, cfg, log)
	if err != nil {
		return err
	}
	return d.serve(ctx)
}

// wire makes the parts and connects them. Nothing runs yet and the host's rules are unchanged.
func wire(flags *config.Flags, cfg *config.Config, log *logrus.Logger) (*daemon, error) {
	d := &daemon{flags: flags, cfg: cfg, log: log, again: make(chan struct{}, 1), stands: make(chan struct{})}
	d.settings.Store(&cfg.Settings)
	limit := d.raiseLimits()
	d.metrics = admin.NewMetrics("IPv4", "IPv6")
	d.trouble = newTrouble(d.log, d.metrics)
	d.health = admin.NewHealth(cfg.SyncPeriod, d.metrics)
	for _, step := range []func() error{
		d.wireRecords, d.wireHost, d.wireWriter, func() error { return d.wireEngine(limit) }, d.wireSource,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	d.wireDataplane()
	d.wireServers()
	d.prepareHost()
	return d, nil
}

// raiseLimits raises the limit of open descriptors and returns it: two for each connection.
func (d *daemon) raiseLimits() uint64 {
	soft, hard, err := platform.RaiseDescriptors()
	if err != nil {
		d.log.WithError(err).Warn("The limit of open descriptors stays as it is")
	}
	d.log.Infof("portald %s: up to %d open descriptors (hard limit %d), two for each connection", version(), soft, hard)
	return soft
}

func (d *daemon) wireRecords() error {
	to := d.cfg.ConnectionLog
	if to.Path == "" {
		return nil
	}
	records, err := admin.NewConnectionLog(admin.LogOptions{Path: to.Path, Format: to.Format, Log: d.log})
	if err != nil {
		return err
	}
	d.records = records
	d.metrics.WatchLog(records)
	return nil
}

func (d *daemon) wireHost() (err error) {
	d.host, err = newHost(d.cfg.Inside)
	return err
}

func (d *daemon) wireWriter() (err error) {
	own, err := platform.LocalAddresses()
	if err != nil {
		return err
	}
	m := d.metrics
	t := told{
		nodePorts: nodePortAddresses(d.cfg, nil), own: own, inside: d.host.inside.rules(), log: d.log,
		failed: d.writeFailed,
		held:   func(family service.IPFamily, table string, rules int) { m.Rules(family.String(), table, rules) },
		wrote:  func(family service.IPFamily, table string, rules int) { m.RulesLast(family.String(), table, rules) },
	}
	d.writer, err = newWriter(d.cfg, traceOf(d.cfg), t)
	if err != nil && d.cfg.Writer == byIPVS && d.cfg.IPVS.Fallback != "" {
		d.fellBack = fmt.Errorf("%s takes the place of IPVS: %w", d.cfg.IPVS.Fallback, err)
		d.log.Warn(d.fellBack)
		d.cfg = withoutIPVS(d.cfg)
		d.writer, err = newWriter(d.cfg, traceOf(d.cfg), t)
	}
	return err
}

// writeFailed counts what the host did not take.
func (d *daemon) writeFailed(family service.IPFamily, partial bool) {
	if d.cfg.Writer == byNFTables {
		d.metrics.NFTablesFailed(family.String())
		return
	}
	d.metrics.RestoreFailed(family.String(), partial)
}

// withoutIPVS is a configuration for a kernel that has no IPVS.
func withoutIPVS(cfg *config.Config) *config.Config {
	out := *cfg
	out.Writer = cfg.IPVS.Fallback
	if out.ProxyMode == byIPVS {
		out.ProxyMode = out.Writer
	}
	return &out
}

func (d *daemon) wireEngine(limit uint64) error {
	var log splice.Observer
	if d.records != nil {
		log = d.records
	}
	loops := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(loops + spareThreads)
	d.log.Infof("%d event loops: as many as the CPUs that this process may use at a time", loops)
	d.account = splice.NewAccount(d.budget(limit))
	mark := uint32(portal.DefaultDials)
	if err := platform.MayMark(mark); err != nil {
		d.log.WithError(err).Warn("portald marks nothing that it sends to endpoints, for want of the capability NET_ADMIN: " +
			"an endpoint that is a Service's own address has it dial itself, up to the limit of open descriptors")
		mark = 0
	}
	core, err := splice.New(splice.Options{
		Policy: d.cfg.Settings.Policy, UDPSessions: d.cfg.UDPSessions, Account: d.account,
		SourcePorts: splice.PortSpan(d.cfg.ProxyPorts), SpareSource: d.reservedPorts(), Mark: mark,
		Observe: func(name service.PortName) splice.Observer { return d.metrics.Observer(name, log) },
		Trouble: d.trouble.tell, OriginalDst: platform.OriginalDst, OriginalDstUDP: d.host.flows.OriginalDstUDP,
		Inside: d.host.inside.has, InsideKnown: d.host.inside.hasKnown, Returns: d.returns, ReturnsKnown: d.returnsKnown,
	}, splice.OpenEpoll(loops))
	d.core = core
	return err
}

// reservedPorts are those that the host keeps for servers.
func (d *daemon) reservedPorts() (spans []splice.PortSpan) {
	reserved, err := platform.ReservedPorts()
	if err != nil {
		d.log.WithError(err).Warn("Connections to endpoints may have local ports that the host reserves")
	}
	for _, s := range reserved {
		spans = append(spans, splice.PortSpan(s))
	}
	return spans
}

// spareThreads run Go beside the event loops, each of which keeps one thread to itself most of the time. There is a loop
// for each CPU that the runtime found at start: those of the host, or fewer by the process' affinity, the limit of its
// cgroups, or the environment's GOMAXPROCS.
const spareThreads = 2

// returns is splice.Options.Returns: until replies are led back, none come.
func (d *daemon) returns(client, endpoint netip.Addr) bool {
	return d.writer.Diverts(service.FamilyOf(client)) && d.host.paths.Returns(client, endpoint)
}

// returnsKnown is splice.Options.ReturnsKnown.
func (d *daemon) returnsKnown(client, endpoint netip.Addr) (returns, known bool) {
	if !d.writer.Diverts(service.FamilyOf(client)) {
		return false, true
	}
	return d.host.paths.ReturnsKnown(client, endpoint)
}

func (d *daemon) wireDataplane() {
	d.listeners = userspace.New(userspace.Options{
		Core: d.core, Ports: d.cfg.ProxyPorts, Log: d.log, Localhost: d.cfg.LocalhostNodePorts,
	})
	d.dataplane = dataplane.New(dataplane.Options{
		Writer: d.writer, Userspace: d.listeners, Kernel: kernel.New(kernel.Options{Node: d.cfg.NodeName, Bounded: d.bounded}), Mode: d.cfg.Mode,
		ForgetUDP: d.metrics.CountForgotten(platform.DeleteUDP), Own: d.host.addresses.Contains,
		Closed: d.metrics.Forget, Contested: d.contested, Serving: d.serving, Aside: d.setAside, Counted: d.metrics.SetAside,
		Trouble: func(err error) { d.log.WithError(err).Warn("UDP clients may be held to endpoints that are gone") },
	})
	d.stopwatch = &proxy.Stopwatch{Dataplane: d.dataplane}
	d.loop.Dataplane, d.loop.Due = d.stopwatch, d.dataplane.Due()
	d.health.Watch(d.hung)
	d.metrics.WatchActive(d.listeners.Active)
	d.metrics.WatchDatagrams(func() uint64 { return d.core.Stats().UDPDropped })
	d.metrics.WatchPorts(func() uint64 { return d.core.Stats().PortsCrowded })
	d.cache.WatchNode(d.nodeChanged)
}

// contested tells of a Service that lost one of its addresses to another.
func (d *daemon) contested(c portal.Conflict) {
	d.log.WithFields(logrus.Fields{"frontend": c.Frontend.String(), "holder": c.Holder.Label(), "service": c.Loser.Label()}).
		Warn("Two Services claim one address; the older one holds it")
	d.events.Contested(c.Loser.Service(),
		fmt.Sprintf("%s is held by the older Service %s; give this one another address", c.Frontend, c.Holder.Label()))
}

// bounded tells of a Service that has too many endpoints for what it asks.
func (d *daemon) bounded(name service.PortName, endpoints int) {
	text := fmt.Sprintf("spec.sessionAffinity ClientIP: %d of the %d endpoints of %s serve from a node that carries it by the kernel; "+
		"use fewer endpoints, no affinity, or the annotation portald.io/mode=userspace", kernel.MaxBound, endpoints, name.Label())
	d.log.WithField("service", name.Label()).Warn(text)
	d.events.ServiceWarning(name.Service(), "AffinityBounded", "LeaveOut", text)
}

// setAside tells of a Service that cannot be served as it asks to be, and when it can again.
func (d *daemon) setAside(n dataplane.News) {
	log := d.log.WithField("service", n.Name.Label())
	if n.Err == nil {
		log.Info("The service port is served again")
		d.events.Served(n.Name.Service(), n.Name.Label())
		return
	}
	d.metrics.Refused(string(n.Reason))
	log.WithError(n.Err).WithField("reason", n.Reason).Error("The service port cannot be served as it asks to be; all others are")
	d.events.Refused(n.Name.Service(), n.Name.Label(), n.Err.Error())
}

func (d *daemon) wireServers() {
	cfg := d.cfg
	server := func(name, address, failed string) admin.ServerOptions {
		return admin.ServerOptions{
			Name: name, Address: address, HardFail: cfg.BindAddressHardFail, Log: d.log,
			Failed: func(err error) { d.events.NodeWarning(failed, "StartKubeProxy", err.Error()) },
		}
	}
	d.servers = []*admin.Server{
		admin.NewHealthServer(server("health", cfg.HealthAddress, "FailedToStartProxierHealthcheck"), d.health),
		admin.NewMetricsServer(server("metrics", cfg.MetricsAddress, "FailedToStartMetricServer"), d.metrics, admin.Pages{
			Mode: d.cfg.ProxyMode, Config: cfg.Documents, Profiling: cfg.Profiling, SetVerbosity: d.setVerbosity,
		}),
	}
	d.services = admin.NewServiceHealth(admin.ServiceHealthOptions{
		Addresses: d.healthCheckAddresses(), Log: d.log, Listen: listenWithin(d.account),
		Failed: func(svc service.Name, err error) {
			d.events.ServiceWarning(svc, "FailedToStartServiceHealthcheck", "Listen", err.Error())
		},
	}, d.health)
}

// prepareHost does what --init-only does, as far as this process may, and has the kernel spare it. A host that serves
// manifests need be no node: nothing of it is changed.
func (d *daemon) prepareHost() {
	if d.fellBack != nil {
		d.events.NodeWarning("NoIPVS", "StartKubeProxy", d.fellBack.Error())
	}
	if d.cfg.Mode == service.ModeKernel {
		d.checkForwarding()
	}
	if len(d.cfg.Manifests) > 0 {
		return
	}
	if err := platform.SetOOMScore(d.cfg.OOMScoreAdj); err != nil {
		d.log.WithError(err).Warn("The kernel may end portald as soon as any other program when memory runs out")
	}
	if err := prepareFlows(d.cfg, d.log); err != nil {
		d.log.WithError(err).Warn("The kernel's table of flows stays as it is; portald --init-only sets it where it may")
		d.events.NodeWarning("ConntrackNotSet", "SetConntrack", err.Error())
	}
	if err := prepareSockets(d.log); err != nil {
		d.log.WithError(err).Warn("Of two connections from one port to two addresses of a Service, this kernel may lose one; " +
			"portald --init-only mends it where it may")
	}
}

// checkForwarding tells of a host that would not pass on what the kernel leads to endpoints.
func (d *daemon) checkForwarding() {
	for _, family := range service.IPFamilies() {
		if on, err := platform.Forwarding(family); err == nil && !on {
			d.log.Warnf("%s is not forwarded on this host: clients beyond it do not reach endpoints beyond it; set net.ipv%d.%s=1",
				family, [2]int{4, 6}[family], [2]string{"ip_forward", "conf.all.forwarding"}[family])
		}
	}
}

// applyAnew has the loop apply everything once more. It never blocks.
func (d *daemon) applyAnew() {
	select {
	case d.again <- struct{}{}:
	default: // it is asked to already
	}
}

func (d *daemon) queued(at time.Time) {
	d.metrics.Queued(at)
	d.health.QueuedUpdate()
}
