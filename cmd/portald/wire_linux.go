package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/iptables"
	"github.com/portald/portald/proxy"
	"github.com/portald/portald/proxy/admin"
	"github.com/portald/portald/proxy/kube"
	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/userspace"
)

// daemon is everything that runs, wired together.
type daemon struct {
	o         *options
	log       logrus.FieldLogger
	cache     *kube.Cache
	source    *kube.Manifests
	engine    *splice.Engine
	flows     *platform.FlowTable
	dataplane *userspace.Dataplane
	loop      *proxy.Loop
	metrics   *admin.Metrics
	health    *admin.Health
	trouble   *trouble
	records   *admin.ConnectionLog // nil without --connection-log
	servers   []*admin.Server
	ready     atomic.Bool // the first sync is done
}

// kept is how many descriptors the process keeps for itself: rules, logs, health checks, manifests.
const kept = 256

// run is the daemon's life: it returns when ctx has ended and everything is drained, or when it cannot start.
func run(ctx context.Context, o *options) error {
	d, err := wire(o)
	if err != nil {
		return err
	}
	return d.serve(ctx)
}

// wire makes the parts and connects them. Nothing runs yet and the host is unchanged.
func wire(o *options) (*daemon, error) {
	d := &daemon{o: o, log: o.log, flows: platform.NewFlowTable()}
	limit := d.raiseLimits()
	d.metrics = admin.NewMetrics("IPv4", "IPv6")
	d.trouble = newTrouble(d.log, d.metrics)
	d.health = admin.NewHealth(o.syncPeriod, d.metrics)
	if err := d.wireRecords(); err != nil {
		return nil, err
	}
	writer, err := newWriter(o, d.metrics)
	if err != nil {
		return nil, err
	}
	if err := d.wireEngine(limit); err != nil {
		return nil, err
	}
	d.dataplane = userspace.New(userspace.Options{
		Engine: d.engine, Writer: writer, Ports: o.ports, Log: d.log, Localhost: o.localhost,
		ForgetUDP: platform.DeleteUDP, Closed: d.metrics.Forget,
	})
	d.metrics.WatchActive(d.dataplane.Active)
	d.metrics.WatchDatagrams(func() uint64 { return d.engine.Stats().UDPDropped })
	d.wireSource(writer.IPv6())
	d.wireServers()
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
	if d.o.connectionLog == "" {
		return nil
	}
	records, err := admin.NewConnectionLog(admin.LogOptions{Path: d.o.connectionLog, Format: d.o.connectionFormat, Log: d.log})
	if err != nil {
		return err
	}
	d.records = records
	d.metrics.WatchLog(records)
	return nil
}

// newWriter makes the writer; m, unless nil, is told of its rules and failures.
func newWriter(o *options, m *admin.Metrics) (*iptables.Writer, error) {
	var failed func(ipv6, partial bool)
	var held func(ipv6 bool, table string, rules int)
	if m != nil {
		failed = func(ipv6, partial bool) { m.RestoreFailed(familyName(ipv6), partial) }
		held = func(ipv6 bool, table string, rules int) { m.Rules(familyName(ipv6), table, rules) }
	}
	w, err := iptables.New(iptables.Options{
		Variant: o.variant, ProxyPorts: [2]uint16{o.ports.First, o.ports.Last}, NodePortAddresses: o.nodePorts,
		ProxyAddresses: o.nodeIPs, Log: o.log.Warnf, Failed: failed, Held: held,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: portald needs the package iptables and the capability NET_ADMIN (root has it)", err)
	}
	return w, nil
}

// familyName is the value of the metrics' label ip_family.
func familyName(ipv6 bool) string {
	if ipv6 {
		return "IPv6"
	}
	return "IPv4"
}

func (d *daemon) wireEngine(limit uint64) error {
	var log splice.Observer
	if d.records != nil {
		log = d.records
	}
	observe := func(name service.PortName) splice.Observer { return d.metrics.Observer(name, log) }
	loops := runtime.NumCPU()
	runtime.GOMAXPROCS(loops + spareThreads)
	engine, err := splice.NewEngine(splice.Options{
		Loops: loops, ConnectTimeouts: d.o.connectTimeouts, HalfClose: d.o.halfClose, Idle: d.o.idle,
		UDPIdle: d.o.udpIdle, UDPSessions: d.o.udpSessions, Descriptors: max(int(limit)-kept, kept),
		Observe: observe, Trouble: d.trouble.tell, OriginalDst: platform.OriginalDst, OriginalDstUDP: d.flows.OriginalDstUDP,
	})
	d.engine = engine
	return err
}

// spareThreads run Go beside the event loops, each of which keeps one thread to itself most of the time.
const spareThreads = 2

func (d *daemon) wireSource(ipv6 bool) {
	store := service.NewStore()
	d.cache = kube.NewCache(store, kube.TranslateOptions{NodeName: d.o.hostname, ExternalIPs: d.o.external, NoIPv6: !ipv6}, d.log)
	d.source = kube.NewManifests(d.o.manifests, d.cache, d.log)
	d.loop = &proxy.Loop{
		Store: store, Dataplane: d.dataplane, Log: d.log, MinSync: d.o.minSync, AuditPeriod: d.o.syncPeriod,
		Watcher: proxy.Watcher{Queued: d.queued, Synced: d.synced},
	}
	d.metrics.WatchChanges(func() admin.Changes {
		services, endpoints := d.cache.Changes()
		pending := store.Pending()
		return admin.Changes{Services: services, Endpoints: endpoints, ServicesPending: pending, EndpointsPending: pending}
	})
}

func (d *daemon) queued(at time.Time) {
	d.metrics.Queued(at)
	d.health.QueuedUpdate()
}

func (d *daemon) wireServers() {
	health := admin.ServerOptions{Name: "health", Address: d.o.healthAddress, HardFail: d.o.hardFail, Log: d.log}
	metrics := admin.ServerOptions{Name: "metrics", Address: d.o.metricsAddress, HardFail: d.o.hardFail, Log: d.log}
	d.servers = []*admin.Server{
		admin.NewHealthServer(health, d.health), admin.NewMetricsServer(metrics, d.metrics, "userspace"),
	}
}

func cleanup(ctx context.Context, o *options) error {
	if err := o.completeHost(); err != nil {
		return err
	}
	var errs []error
	variants := []string{o.variant}
	if o.variant == "" {
		variants = []string{"nft", "legacy"}
	}
	found := false
	for _, o.variant = range variants {
		w, err := newWriter(o, nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found = true
		if err := w.Cleanup(ctx); err != nil {
			return err
		}
	}
	if !found {
		return errors.Join(errs...)
	}
	return nil
}
