package ipvs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
)

// fake is a kernel that only keeps what it is told, and counts how often.
type fake struct {
	servers map[service.Frontend]settings
	ends    map[service.Frontend]map[netip.AddrPort]*destination
	device  map[netip.Addr]bool
	host    []netip.Addr
	sets    map[string]map[element]bool
	told    int
	lacks   string // a scheduler
	sysctls map[string]string
	version platform.KernelVersion
}

func newFake(host ...string) *fake {
	return &fake{
		servers: map[service.Frontend]settings{}, ends: map[service.Frontend]map[netip.AddrPort]*destination{},
		device: map[netip.Addr]bool{}, host: addrs(host...), sets: map[string]map[element]bool{},
		sysctls: map[string]string{}, version: platform.KernelVersion{6, 1},
	}
}

func (k *fake) kernel() kernel {
	add := func(f service.Frontend, s settings) error {
		k.told++
		if _, there := k.servers[f]; there {
			return fmt.Errorf("%s is there", f)
		}
		k.servers[f], k.ends[f] = s, map[netip.AddrPort]*destination{}
		return nil
	}
	return kernel{
		virtualServers: func() (map[service.Frontend]settings, error) { return maps.Clone(k.servers), nil },
		addServer:      add,
		editServer:     func(f service.Frontend, s settings) error { k.told++; k.servers[f] = s; return nil },
		removeServer: func(f service.Frontend) error {
			k.told++
			delete(k.servers, f)
			delete(k.ends, f)
			return nil
		},
		destinations:   k.destinations,
		addDestination: k.weigh, setWeight: k.weigh,
		removeDestination: func(f service.Frontend, a netip.AddrPort) error { k.told++; delete(k.ends[f], a); return nil },
		makeDevice:        func() error { return nil },
		removeDevice:      func() error { clear(k.device); return nil },
		hostAddresses: func() (device, others []netip.Addr, err error) {
			return slices.SortedFunc(maps.Keys(k.device), netip.Addr.Compare), k.host, nil
		},
		addAddress:    func(a netip.Addr) error { k.told++; k.device[a] = true; return nil },
		removeAddress: func(a netip.Addr) error { k.told++; delete(k.device, a); return nil },
		makeSet: func(s set) error {
			if k.sets[s.name] == nil {
				k.sets[s.name] = map[element]bool{}
			}
			return nil
		},
		elementsOf: func(s set) ([]element, bool, error) {
			return slices.Collect(maps.Keys(k.sets[s.name])), k.sets[s.name] != nil, nil
		},
		addElement:    func(name string, e element) error { k.told++; k.sets[name][e] = true; return nil },
		removeElement: func(name string, e element) error { k.told++; delete(k.sets[name], e); return nil },
		destroySet:    func(name string) error { delete(k.sets, name); return nil },
		sizes:         k.sizes,
		sysctl:        func(name, value string) error { k.sysctls[name] = value; return nil },
		version:       func() platform.KernelVersion { return k.version },
		hasScheduler:  func(name string) bool { return name != k.lacks },
		timeouts:      func(time.Duration, time.Duration, time.Duration) error { return nil },
	}
}

func (k *fake) sizes(sets map[string]bool) (sizes, bool) {
	out := sizes{servers: len(k.servers), device: true}
	for name := range sets {
		out.elements += len(k.sets[name])
	}
	return out, true
}

func (k *fake) destinations(f service.Frontend) (out []destination, err error) {
	for _, d := range k.ends[f] {
		out = append(out, *d)
	}
	return out, nil
}

func (k *fake) weigh(f service.Frontend, a netip.AddrPort, weight int) error {
	k.told++
	if d := k.ends[f][a]; d != nil {
		d.weight = weight
		return nil
	}
	k.ends[f][a] = &destination{addr: a, weight: weight}
	return nil
}

// writer is one of ours on this kernel, with Rules in memory.
func (k *fake) writer(t *testing.T, o Options) (*Writer, *portaltest.Fake) {
	t.Helper()
	r := portaltest.NewFake()
	r.Has = portal.Features{IPv6: true, Adopts: true, Opens: true}
	o.Rules = r
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	w := newWriter(o, k.kernel())
	w.v6 = true
	return w, r
}
