package daemon

import (
	"context"
	"net/netip"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
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
	store   *service.Store
	cache   *translate.Cache
	client  *apiclient.Client // nil without an API server, as events
	events  *watch.Recorder
	refused func() int      // files of which something cannot be read; nil with an API server
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
	cfg *config.Config, writer portal.Writer, nodePorts func(netip.Addr) bool, log *logrus.Logger,
) (*source, error) {
	s := &source{store: service.NewStore()}
	s.cache = translate.NewCache(s.store, translateOptions(cfg, writer.Features().IPv6, writer.Offers), log)
	s.cache.SetNodeAddresses(nodePorts)
	from, err := s.open(cfg, log)
	if err != nil {
		return nil, err
	}
	s.Stage, s.synced = parts.NewStage(from.Run), from.Synced()
	if cfg.ClientPods {
		s.whoIs = s.cache.Workload
	}
	s.waker = s.newWaker(log)
	return s, nil
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
	return watch.New(client, s.cache, log), nil
}

// newWaker returns what tells the API server of clients that wait for an endpoint, and scales workloads for them.
func (s *source) newWaker(log *logrus.Logger) *wake.Waker {
	o := wake.Options{Log: log, NeedPods: s.events.NeedPods, Scaled: s.events.Scaled, Failed: s.events.NotScaled}
	if s.client != nil {
		o.Client = s.client
	}
	return wake.New(o)
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
		ServiceCIDRs: writers.TakesServiceCIDRs(cfg),
	}
}
