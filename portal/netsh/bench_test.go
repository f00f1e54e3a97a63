package netsh

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/netshtest"
	"github.com/portald/portald/portal/service"
)

// The cost of the Writer itself, without netsh, with this many Services of one ClusterIP and one NodePort.
const services = 5000

func serviceAt(i int) []portal.Portal {
	return []portal.Portal{
		clusterIP(fmt.Sprintf("10.%d.%d.%d:80 shop/s%d", 96+i/62500, i/250%250, i%250+1, i)),
		nodePort(fmt.Sprintf("0.0.0.0:%d shop/s%d", 20000+i, i)),
	}
}

func benchRig(b *testing.B) (*Writer, []portal.Portal) {
	var all []portal.Portal
	for i := range services {
		all = append(all, serviceAt(i)...)
	}
	host := &netshtest.Memory{}
	host.Plug("Ethernet", nodeIndex, "192.168.1.10/24")
	host.Plug(DefaultInterface, deviceIndex)
	r := &rig{host: host, sim: &netshtest.Netsh{Host: host}}
	w, err := New(Options{Listeners: nobody{}, State: b.TempDir(), Run: r.run, Interfaces: r.interfaces})
	if err != nil {
		b.Fatal(err)
	}
	return w, all
}

func BenchmarkReplace(b *testing.B) {
	for b.Loop() {
		w, all := benchRig(b)
		if err := w.Replace(b.Context(), all); err != nil {
			b.Fatal(err)
		}
	}
}

// A port that comes and goes at an address that stays.
func BenchmarkUpdatePort(b *testing.B) {
	benchUpdate(b, clusterIP("10.96.0.1:443 shop/more"))
}

// An address that comes and goes.
func BenchmarkUpdateAddress(b *testing.B) {
	benchUpdate(b, clusterIP("10.200.0.1:80 shop/more"))
}

func benchUpdate(b *testing.B, p portal.Portal) {
	w, all := benchRig(b)
	if err := w.Replace(b.Context(), all); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, c := range []portal.Change{change(p), {Frontend: p.Frontend}} {
			if err := w.Update(b.Context(), []portal.Change{c}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkSweep looks at a host on which nothing has changed.
func BenchmarkSweep(b *testing.B) {
	w, all := benchRig(b)
	if err := w.Replace(b.Context(), all); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := w.sweep(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

type nobody struct{}

func (nobody) Listen(service.PortName, netip.AddrPort) error { return nil }

func (nobody) Unlisten(service.PortName, netip.AddrPort) {}
