package tenants

import (
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/iptables"
	"github.com/portald/portald/portal/ipvs"
	"github.com/portald/portald/portal/nftables"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/kernel"
	"github.com/portald/portald/proxy/kube/translate"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

const prefix = "TENANTS"

func inside() portal.LocalDetector {
	return portal.LocalDetector{Sources: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"),
		netip.MustParsePrefix("fd00:244::/64")}}
}

// writers lists all rule writers that the host supports.
func writers(t *testing.T) map[string]func() (portal.Writer, error) {
	t.Setenv("XTABLES_LOCKFILE", filepath.Join(t.TempDir(), "xtables.lock"))
	out := map[string]func() (portal.Writer, error){
		"nftables": func() (portal.Writer, error) {
			return nftables.New(nftables.Options{Options: options()})
		},
	}
	for _, variant := range []string{"nft", "legacy"} {
		if _, err := exec.LookPath("iptables-" + variant + "-restore"); err != nil {
			netnstest.Missing(t, "needs iptables-%s-restore (Debian package iptables)", variant)
		}
		out["iptables-"+variant] = func() (portal.Writer, error) { return iptables.New(t.Context(), rules(variant, nil)) }
	}
	o := ipvs.Options{Prefix: prefix, LocalDetector: inside()}
	if ipvs.Usable(o) == nil {
		out["ipvs"] = func() (w portal.Writer, err error) {
			if o.Rules, err = iptables.New(t.Context(), rules("", ipvs.Chains(o))); err != nil {
				return nil, err
			}
			return ipvs.New(o)
		}
	}
	return out
}

func rules(variant string, extra []writer.Chain) iptables.Options {
	return iptables.Options{
		Options: options(), Prefix: prefix, Variant: variant, Extra: extra, ExtraNames: ipvs.ChainNames,
	}
}

func options() writer.Options {
	return writer.Options{Settings: writer.Settings{LocalDetector: inside()}, ProxyPorts: portaltest.ProxyRange()}
}

// listeners is a fake data path that assigns each service port a proxy port, until the range is exhausted.
type listeners struct{ ports map[service.PortName]uint16 }

func (l *listeners) Serve(p *service.Port) (out []portal.Portal, err error) {
	at, ok := l.ports[p.Name]
	if !ok {
		if at = portaltest.ProxyPort + uint16(len(l.ports)); at > portaltest.ProxyPort+most {
			err = fmt.Errorf("serve %s: no free proxy port", p.Name)
		} else {
			l.ports[p.Name] = at
		}
	}
	for _, x := range p.Exposures {
		target := portal.Target(portal.Redirect{Port: at})
		if err != nil {
			target = portal.Reject{}
		}
		out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: target})
	}
	return out, err
}

const most = 100 // proxy ports

func (l *listeners) Retire([]service.PortName, []service.Change) error { return nil }
func (l *listeners) ProxyPorts() map[portal.ProxyPort]bool             { return nil }

// bed is a node with two Services (witnesses) besides those of a tenant: one in userspace and one in kernel mode.
type bed struct {
	*portaltest.Site
	cache       *translate.Cache
	store       *service.Store
	plane       *dataplane.Dataplane
	newRefusals []dataplane.Refusal
	turns       int
}

const (
	byListener, byKernel = "10.96.0.1", "10.96.0.2"
	firstEcho            = 7001 // and the next one
)

func newBed(t *testing.T, open func() (portal.Writer, error)) *bed {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	b := &bed{store: service.NewStore()}
	var w portal.Writer
	b.Site = portaltest.NewSite(t, func() (portal.Writer, error) {
		var err error
		w, err = open()
		return w, err
	})
	for i := range 2 {
		b.Node.Must(func() error { return portaltest.Echo(t, portaltest.NodeV4, firstEcho+i) })
	}
	b.cache = translate.NewCache(b.store, translate.Options{
		NodeName: "here", ExternalIPs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
		NoIPv6: !w.Features().IPv6,
	}, log)
	b.plane = dataplane.New(dataplane.Options{
		Writer: w, Userspace: &listeners{map[service.PortName]uint16{}}, Kernel: kernel.New(kernel.Options{}),
		Mode:    service.ModeUserspace,
		Refused: func(n dataplane.Refusal) { b.newRefusals = append(b.newRefusals, n) },
	})
	b.turn()
	b.Node.Must(func() error {
		ports, _ := b.store.All()
		return b.plane.Resync(t.Context(), ports)
	})
	b.served()
	return b
}

// turn switches the witnesses to other endpoints.
func (b *bed) turn() {
	b.turns++
	for name, ip := range map[string]string{"userspace": byListener, "kernel": byKernel} {
		meta := metav1.ObjectMeta{Namespace: "witness", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
			Annotations: map[string]string{"portald.io/mode": name}}
		svc := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			ClusterIP: ip, ClusterIPs: []string{ip}, Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Port: 443, Protocol: corev1.ProtocolTCP}}}}
		meta.Labels = map[string]string{discoveryv1.LabelServiceName: name}
		b.cache.Set(svc, &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: new(""), Protocol: new(corev1.ProtocolTCP),
				Port: new(int32(firstEcho + b.turns%2))}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{portaltest.NodeV4}}}})
	}
}

// sync applies the changes and checks that the witnesses are served.
func (b *bed) sync() {
	b.Helper()
	b.turn()
	b.Node.Must(func() error {
		changes, _ := b.store.Take()
		return b.plane.Sync(b.Context(), changes)
	})
	b.served()
}

func (b *bed) served() {
	b.Helper()
	for _, ip := range []string{byListener, byKernel} {
		b.Expect(b.Client, "the client", "tcp", ip+":443", portaltest.Answered)
	}
	for _, n := range b.newRefusals {
		if n.Name.Namespace == "witness" {
			b.Fatalf("a witness is set aside: %v", n.Err)
		}
	}
}

// live creates, changes and deletes a tenant's Services.
func (b *bed) live(seed uint64, services, endpoints int) {
	b.Helper()
	t := newTenant(seed)
	for n := range services {
		svc := t.service(n)
		objects := []metav1.Object{svc}
		for _, s := range t.slices(svc, endpoints) {
			objects = append(objects, s)
		}
		b.cache.Set(objects...)
		if t.one(3) {
			other := t.service(n)
			other.Name = svc.Name
			b.cache.Set(other)
		}
		if t.one(4) {
			b.cache.Delete(translate.Key{Kind: translate.KindService, Namespace: svc.Namespace, Name: svc.Name})
		}
		if t.one(2) {
			b.sync()
		}
	}
	b.sync()
	b.Node.Must(func() error {
		ports, _ := b.store.All()
		return b.plane.Resync(b.Context(), ports)
	})
	b.served()
	all, _ := b.store.All()
	frontends := 0
	for _, p := range all {
		frontends += len(p.Exposures)
	}
	b.Logf("%d service ports with %d frontends; %d were set aside", len(all), frontends, len(b.newRefusals))
	for _, n := range b.newRefusals {
		if n.Reason == dataplane.ByRules {
			b.Errorf("the host refuses %s: %.2000v", n.Name, n.Err)
		}
	}
}

// No Service of a tenant keeps others from being served, and no writer rejects any of its rules.
func TestTenants(t *testing.T) {
	for name, open := range writers(t) {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { newBed(t, open).live(seed, 20, 300) })
			}
		})
	}
}

// FuzzTenants is TestTenants with random tenants, whose Services can have ten thousand endpoints.
func FuzzTenants(f *testing.F) {
	f.Add(uint64(1), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, which uint8) {
		all := writers(t)
		for _, name := range []string{"nftables", "iptables-nft", "iptables-legacy", "ipvs"} {
			if open, ok := all[name]; ok && (which%4 == 0 && name == "nftables" || which%4 == 1 && name == "iptables-nft" ||
				which%4 == 2 && name == "iptables-legacy" || which%4 == 3 && name == "ipvs") {
				newBed(t, open).live(seed, 12, 10_000)
			}
		}
	})
}
