package ipvs

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
)

// Virtual servers that an earlier run wrote by several changes, and drains, are adopted without a write, and drained
// further.
func TestAdopt(t *testing.T) {
	k := newFake("192.0.2.1")
	o := Options{LocalDetector: portal.LocalDetector{Sources: prefixes("10.244.0.0/16")}}
	w, _ := k.writer(t, o)
	both, one := spread(service.ClusterIP, clusterIP, inet.TCP, first, second), spread(service.ClusterIP, clusterIP,
		inet.TCP, second)
	gone := spread(service.ClusterIP, "10.96.0.2:80", inet.TCP, first)
	turned := spread(service.ExternalIP, "198.51.100.1:80", inet.TCP, first)
	node := spread(service.NodePort, "0.0.0.0:30080", inet.UDP, first)
	replace(t, w, both, gone, turned, node)
	for _, p := range []portal.Portal{both, gone} {
		k.ends[p.Frontend][netip.MustParseAddrPort(first)].conns = 1
	}
	turn(t, w, both, one.Target)
	turn(t, w, gone, nil)
	turn(t, w, turned, portal.Redirect{Port: 20000})
	turned.Target = portal.Redirect{Port: 20000}

	told := k.told
	w, r := k.writer(t, o)
	if err := w.Adopt(t.Context(), []portal.Portal{one, turned, node}); err != nil || k.told != told {
		t.Fatalf("Adopt: %v, and the kernel was told %d times", err, k.told-told)
	}
	audited(t, w)
	if got, want := r.Dump(), "ExternalIP 198.51.100.1:80/tcp -> port 20000 (shop/web/tcp)"; got != want {
		t.Errorf("rules adopted %s", got)
	}
	if got := append(k.weights(both.Frontend, first, second), k.weights(gone.Frontend, first)...); !slices.Equal(got,
		[]int{0, 1, 0}) {
		t.Errorf("weights %v", got)
	}
	k.ends[both.Frontend][netip.MustParseAddrPort(first)].conns = 0
	k.ends[gone.Frontend][netip.MustParseAddrPort(first)].conns = 0
	swept(t, w)
	audited(t, w)
	if _, there := k.servers[gone.Frontend]; there || k.device[gone.Frontend.Addr.Addr()] ||
		k.weights(both.Frontend, first)[0] != -1 {
		t.Errorf("idle: servers %v, addresses %v", k.servers, k.device)
	}
	turn(t, w, one, both.Target)
	turn(t, w, node, nil)
	if err := w.Cleanup(t.Context()); err != nil || len(k.servers)+len(k.device)+len(k.sets) > 0 {
		t.Errorf("Cleanup: %v, left behind: %v, %v, %v", err, k.servers, k.device, k.sets)
	}
}

func TestAdoptFindsDifferences(t *testing.T) {
	p := spread(service.ClusterIP, clusterIP, inet.TCP, first, second)
	at, addr := netip.MustParseAddrPort(first), p.Frontend.Addr.Addr()
	names := newNames(DefaultPrefix)
	for what, change := range map[string]func(*fake, *portaltest.Fake){
		"no server":      func(k *fake, _ *portaltest.Fake) { delete(k.servers, p.Frontend) },
		"other settings": func(k *fake, _ *portaltest.Fake) { k.servers[p.Frontend] = settings{scheduler: "sed"} },
		"no endpoint":    func(k *fake, _ *portaltest.Fake) { delete(k.ends[p.Frontend], at) },
		"another weight": func(k *fake, _ *portaltest.Fake) { k.ends[p.Frontend][at].weight = 0 },
		"another endpoint": func(k *fake, _ *portaltest.Fake) {
			k.weigh(p.Frontend, netip.MustParseAddrPort("10.244.0.9:1"), 1)
		},
		"another server": func(k *fake, _ *portaltest.Fake) {
			f := front("10.96.0.1:81", inet.TCP)
			k.servers[f], k.ends[f] = settings{scheduler: "rr"}, map[netip.AddrPort]*destination{at: {addr: at, weight: 1}}
		},
		"no address":      func(k *fake, _ *portaltest.Fake) { delete(k.device, addr) },
		"another address": func(k *fake, _ *portaltest.Fake) { k.device[netip.MustParseAddr("10.96.0.7")] = true },
		"no set":          func(k *fake, _ *portaltest.Fake) { delete(k.sets, names.set(pods, inet.IPv6)) },
		"no element":      func(k *fake, _ *portaltest.Fake) { clear(k.sets[names.set(served, inet.IPv4)]) },
		"another element": func(k *fake, _ *portaltest.Fake) {
			k.sets[names.set(addresses, inet.IPv4)][element{addr: netip.MustParseAddr("10.96.0.7")}] = true
		},
		"other rules": func(_ *fake, r *portaltest.Fake) { r.Differs = errors.New("a rule is missing") },
	} {
		k := newFake("192.0.2.1")
		w, _ := k.writer(t, Options{})
		replace(t, w, p)
		w, r := k.writer(t, Options{})
		change(k, r)
		told := k.told
		err := w.Adopt(t.Context(), []portal.Portal{p})
		if err == nil || k.told != told {
			t.Errorf("%s: %v, and the kernel was told %d times", what, err, k.told-told)
		} else {
			t.Logf("%s: %v", what, err)
		}
		if err := w.Update(t.Context(), nil); !errors.Is(err, portal.ErrUnknown) {
			t.Errorf("%s: an Update follows: %v", what, err)
		}
		replace(t, w, p)
	}
}
