package daemon

import (
	"context"
	"net/netip"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/kube/apiclient"
	"github.com/portald/portald/proxy/kube/manifests"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/kube/wake"
	"github.com/portald/portald/proxy/kube/watch"
	"github.com/portald/portald/proxy/metrics"
)

// whoIs tells which pod has an address, as splice.Options.WhoIs and flows.Options.WhoIs ask; nil: nobody knows.
type whoIs = func(client netip.Addr) (service.Workload, bool)

// source delivers Services from the API server or from manifests to the store.
type source struct {
	*parts.Stage
	log     logrus.FieldLogger
	store   *service.Store
	cache   *translate.Cache
	client  *apiclient.Client // nil without an API server, as events
	events  *watch.Recorder
	refused func() int // files of which something cannot be read; nil with an API server
	history *changes.Log
	synced  <-chan struct{} // closed once the store has the first complete state
	waker   *wake.Waker
	whoIs   whoIs
}

// feed is where objects come from.
type feed interface {
	Run(ctx context.Context) error
	Synced() <-chan struct{}
}

// newSource returns a source of what the writer can serve; nodePorts tells the addresses that NodePorts are on.
func newSource(
	cfg *config.Config, writer portal.Writer, nodePorts func(netip.Addr) bool, history *changes.Log, log *logrus.Logger,
) (*source, error) {
	s := &source{log: log, store: service.NewStore(), history: history}
	s.store.Watch(s.history.Ports)
	s.cache = translate.NewCache(s.store, translateOptions(cfg, writer.Features().IPv6, writer.Offers), log)
	s.cache.SetNodeAddresses(nodePorts)
	s.cache.Annotated = func(of service.Name, annotation, old, new string) {
		s.history.Add(changes.Change{Kind: changes.ServiceChanged, What: annotation, Old: old, New: new,
			Service: service.PortName{Namespace: of.Namespace, Name: of.Name}})
	}
	from, err := s.open(cfg, log)
	if err != nil {
		return nil, err
	}
	s.synced = from.Synced()
	begin := s.history.Position() // what is inherited, the predecessor has logged
	s.Stage = parts.NewStage(from.Run, s.beginHistory, func(ctx context.Context) error { return s.logHistory(ctx, begin) })
	if cfg.ClientPods {
		s.whoIs = s.cache.Workload
	}
	s.waker = s.newWaker(log)
	return s, nil
}

// watch has changes of service ports told to another one too. It is called before the source starts.
func (s *source) watch(also func(old, new *service.Port)) {
	s.store.Watch(func(old, new *service.Port) {
		s.history.Ports(old, new)
		also(old, new)
	})
}

func (s *source) open(cfg *config.Config, log *logrus.Logger) (feed, error) {
	if len(cfg.Manifests) > 0 {
		from := manifests.New(cfg.Manifests, s.cache, log)
		s.refused = from.Refused
		return from, nil
	}
	watch.QuietLibraries(log)
	api := cfg.API
	client, err := apiclient.New(apiclient.Options{
		Kubeconfig: api.Kubeconfig, Master: api.Master, QPS: api.QPS, Burst: api.Burst,
		ContentType: api.ContentType, AcceptContentTypes: api.AcceptContentTypes,
	})
	if err != nil {
		return nil, err
	}
	s.client, s.events = client, watch.NewRecorder(client, s.cache, log)
	s.cache.Report = s.events.Problem
	from := watch.New(client, s.cache, log)
	from.Report = s.apiServer
	return from, nil
}

// apiServer implements watch.Source.Report.
func (s *source) apiServer(answers bool, text string) {
	kind := changes.APIServerAway
	if answers {
		kind = changes.APIServerBack
	}
	s.history.Add(changes.Change{Kind: kind, What: bounded(text)})
}

// newWaker returns what tells the API server of clients that wait for an endpoint, and scales workloads for them.
func (s *source) newWaker(log *logrus.Logger) *wake.Waker {
	o := wake.Options{Log: log, NeedPods: s.events.NeedPods, Scaled: s.events.Scaled, Failed: s.events.NotScaled}
	if s.client != nil {
		o.Client = s.client
	}
	return wake.New(o)
}

// beginHistory has the history begin when all that was there at the start is known.
func (s *source) beginHistory(ctx context.Context) error {
	select {
	case <-s.synced:
		s.history.Begin()
	case <-ctx.Done():
	}
	return nil
}

// loggedElsewhere are the kinds of changes of which the log has more, by whoever adds them.
var loggedElsewhere = []changes.Kind{
	changes.EndpointDrained, changes.EndpointUndrained, changes.ServiceRefused, changes.ServiceAccepted,
	changes.RulesChanged, changes.Resynced, changes.APIServerAway, changes.APIServerBack, changes.DaemonTookOver,
}

// logHistory writes changes to the log, from a position on. Whoever makes a change does not wait for a log that stands
// still.
func (s *source) logHistory(ctx context.Context, position uint64) error {
	for {
		all, missed, next, more := s.history.After(position)
		if position = next; missed > 0 {
			s.log.Warnf("%d changes are not in the log, which was too slow: see portald changes", missed)
		}
		for _, c := range all {
			if !slices.Contains(loggedElsewhere, c.Kind) {
				s.log.WithField("kind", c.Kind).Infof("Change: %s", c.Text())
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-more:
		}
	}
}

// changes returns the numbers of changes that metrics show.
func (s *source) changes() metrics.Changes {
	services, endpoints := s.cache.Changes()
	pending := s.store.Pending()
	return metrics.Changes{Services: services, Endpoints: endpoints, ServicesPending: pending, EndpointsPending: pending}
}

func translateOptions(cfg *config.Config, ipv6 bool, offers func(service.Algorithm) bool) translate.Options {
	return translate.Options{
		NodeName: cfg.NodeName, ServiceProxyName: cfg.ServiceProxyName, ExternalIPs: cfg.ExternalIPs,
		NoIPv6: !ipv6, NoRules: writers.Direct(cfg), ClientPods: cfg.ClientPods,
		RefusedAnnotations: cfg.RefusedAnnotations, Mode: cfg.Mode, KernelAlgorithm: offers,
		ClientAddress: cfg.Settings.Policy.ClientAddress,
		ServiceCIDRs:  writers.TakesServiceCIDRs(cfg),
	}
}

// has tells whether there is a service port of that name.
func (s *source) has(name service.PortName) bool { return s.store.Port(name) != nil }
