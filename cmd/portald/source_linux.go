package main

import (
	"context"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/proxy"
	"github.com/portald/portald/proxy/admin"
	"github.com/portald/portald/proxy/kube/manifests"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/kube/watch"
	"github.com/portald/portald/proxy/service"
)

// source is where Services come from.
type source interface {
	Run(ctx context.Context) error
	Synced() <-chan struct{}
}

func (d *daemon) wireSource() error {
	store := service.NewStore()
	d.loop = &proxy.Loop{
		Store: store, Log: d.log, MinSync: d.cfg.MinSync, AuditPeriod: d.cfg.SyncPeriod, Again: d.again,
		Watcher: proxy.Watcher{Queued: d.queued, Synced: d.synced},
	}
	d.cache = translate.NewCache(store, translateOptions(d.cfg, d.writer.IPv6()), d.log)
	d.cache.SetOwn(d.host.addresses.Contains)
	d.metrics.WatchChanges(func() admin.Changes {
		services, endpoints := d.cache.Changes()
		pending := store.Pending()
		return admin.Changes{Services: services, Endpoints: endpoints, ServicesPending: pending, EndpointsPending: pending}
	})
	if len(d.cfg.Manifests) > 0 {
		d.source = manifests.New(d.cfg.Manifests, d.cache, d.log)
		return nil
	}
	watch.QuietLibraries(d.log)
	api := d.cfg.API
	client, err := watch.NewClient(watch.ClientOptions{
		Kubeconfig: api.Kubeconfig, Master: api.Master, QPS: api.QPS, Burst: api.Burst,
		ContentType: api.ContentType, AcceptContentTypes: api.AcceptContentTypes,
	})
	if err != nil {
		return err
	}
	d.events = watch.NewRecorder(client, d.cache, d.log)
	d.cache.Report = d.events.Problem
	d.source = watch.New(client, d.cache, d.log)
	return nil
}

func translateOptions(cfg *config.Config, ipv6 bool) translate.Options {
	return translate.Options{
		NodeName: cfg.NodeName, ServiceProxyName: cfg.ServiceProxyName, ExternalIPs: cfg.ExternalIPs,
		NoIPv6: !ipv6,
	}
}
