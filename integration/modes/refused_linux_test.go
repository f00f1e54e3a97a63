package modes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/explain"
)

// Packets of clients that rules refuse for want of an endpoint are counted in every mode, through changes of other
// Services. The twin with an endpoint has none, and a Service that is gone frees its series.
func TestRefusedPackets(t *testing.T) { bed.EachMode(t, refusedPackets) }

func refusedPackets(b *bed.Bed, m bed.Mode) {
	b.ServePods(0)
	empty := b.Simple("empty", "10.96.8.8", 0)
	served := empty.Pods
	empty.Pods = nil
	cart := b.Cart(0)
	d := b.Start(cart.String()+empty.String()+elsewhere, m.Args...)
	r := &refused{d}
	r.expect("shop/empty:http", 0)

	const times = 4
	dial := func() {
		b.Helper()
		for range times {
			if _, err := bed.Ask(b.Client, "tcp", "10.96.8.8:80"); err == nil {
				b.Fatal("the Service without an endpoint answers")
			}
		}
	}
	dial()
	r.expect("shop/empty:http", times)
	e := explainOf(d, "shop/empty", "")
	e.verdict(explain.Wrong, fmt.Sprintf("has no endpoint of IPv4. %d packets of clients were refused since ", times))
	e.has("Frontends", " UTC: no endpoint")

	near := b.Simple("near", "10.96.8.8", 0) // in the same chain of iptables
	near.Ports[0].Number, near.Pods, near.IPs = 81, nil, []string{"10.96.12.8"}
	d.Apply(cart.String() + empty.String() + elsewhere + near.String())
	dial()
	d.Apply(cart.String() + empty.String() + elsewhere)
	r.expect("shop/empty:http", 2*times)

	b.ServedBy(bed.IP4, bed.PodName(0))
	r.expect("shop/cart:http", 0)

	// A Local policy and no endpoint here: packets are dropped, of all at the ClusterIP, of clients outside elsewhere.
	dropped := []string{"10.96.0.77:80", bed.HostPort(b.Node.IPv4.String(), 30077)}
	if m.Name == "IPVS" {
		dropped = dropped[:1] // see docs/limits.md
	}
	for _, to := range dropped {
		_, _ = bed.AskWithin(300*time.Millisecond, b.Client, "tcp", to)
	}
	r.expect("shop/away:http", uint64(len(dropped)))

	dial() // and nobody reads before the rules go
	empty.Pods = served
	d.Apply(cart.String() + empty.String())
	b.ServedBy("10.96.8.8", bed.PodName(0))
	// Clients may have been refused since, until the rules were there.
	if packets := *r.service("shop/empty:http").RefusedPackets; packets < 3*times {
		b.Errorf("%d packets are left of %d", packets, 3*times)
	}
	explainOf(d, "shop/empty", "").has("Frontends", ": there was no endpoint")
	if r.exported("shop/away:http") {
		b.Error("a Service that is gone has a series")
	}
}

// refused asks a daemon for refused packets.
type refused struct{ *bed.Daemon }

func (r *refused) service(name string) (out adminsocket.Service) {
	r.Helper()
	all, err := r.Admin().Services(r.Context(), adminsocket.ServiceQuery{Services: []string{name}})
	r.Must(err)
	if len(all) != 1 || all[0].RefusedPackets == nil {
		r.Fatalf("%s is not counted: %+v", name, all)
	}
	return all[0]
}

// expect compares what the API, the metric and the rules of the host say.
func (r *refused) expect(name string, want uint64) {
	r.Helper()
	// A reading soon after another is left out.
	r.Eventually(fmt.Sprintf("%d packets to %s", want, name), func() bool {
		return *r.service(name).RefusedPackets == want
	})
	series := fmt.Sprintf(`portald_refused_packets_total{protocol="tcp",service=%q}`, name)
	r.Eventually(series, func() bool { return uint64(r.Metric(series)) == want })
}

func (r *refused) exported(name string) bool {
	r.Helper()
	_, body, err := r.Get("127.0.0.1:10249", "/metrics")
	r.Must(err)
	return strings.Contains(body, fmt.Sprintf("portald_refused_packets_total{protocol=\"tcp\",service=%q}", name))
}
