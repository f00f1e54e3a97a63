package portaltest

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// refusals adds up what a Writer reports of refused packets, by the name of the Service.
type refusals struct {
	mu  sync.Mutex
	sum map[string]uint64
}

func (r *refusals) add(more portal.Refused) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum[more.Owner.Name] += more.Packets
}

func (r *refusals) now() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.sum)
}

// Without is what a Writer of Refusals cannot count.
type Without struct{ Outside bool } // clients outside the cluster at portals that spread and serve those inside alone

// Refusals runs what every Writer that counts refused packets must do. Open opens one in the namespace of the calling
// thread, with Options.Refused.
func Refusals(t *testing.T, without Without, open func(func(portal.Refused)) (portal.Writer, error)) {
	counted := &refusals{sum: map[string]uint64{}}
	s := NewSite(t, func() (portal.Writer, error) { return open(counted.add) })
	s.UnlimitICMP()
	r := &refusing{Site: s, counted: counted, want: map[string]uint64{}}
	r.Write(r.portals())
	r.expect("before the first client")
	r.dialAll()
	r.expect("after clients")

	stop := r.readOn()
	near := r.portal("neighbour", "10.96.5.1:80", service.ClusterIP, portal.Reject{}) // iptables has it in the same chain
	r.update("with a neighbour", portal.Change{Frontend: near.Frontend, Portal: &near})
	r.dial("neighbour", "10.96.5.1:80", Refused)
	r.dialAll()
	r.update("without the neighbour", portal.Change{Frontend: near.Frontend})
	r.dialAll()
	r.Write(r.portals())
	r.expect("after a resync")
	r.dialAll()
	stop()

	// What came since the last reading is counted before the rules go.
	var served []portal.Change
	for _, p := range r.portals() {
		if p.Owner.Name == "none" {
			p.Target = portal.Redirect{Port: ProxyPort}
			served = append(served, portal.Change{Frontend: p.Frontend, Portal: &p})
		}
	}
	r.update("with an endpoint", served...)
	for _, addr := range r.addresses() {
		s.Expect(s.Client, "the client", "tcp", addr, Answered)
	}
	r.expect("once there is an endpoint")
	if !without.Outside {
		r.outside()
	}
	if s.Writer.Features().Adopts {
		r.adopt(open)
	}
}

// refusing is a site with portals that refuse.
type refusing struct {
	*Site
	counted *refusals
	want    map[string]uint64
}

func (r *refusing) portal(owner, at string, kind service.Kind, to portal.Target) portal.Portal {
	return portal.Portal{
		Frontend: service.Frontend{Addr: netip.MustParseAddrPort(at), Protocol: inet.TCP}, Kind: kind,
		Owner: service.PortName{Namespace: "shop", Name: owner, Protocol: inet.TCP}, Target: to,
	}
}

// portals are one without an endpoint (none), its twin, and others that refuse some clients.
func (r *refusing) portals() []portal.Portal {
	to := portal.Redirect{Port: ProxyPort}
	return []portal.Portal{
		r.portal("none", "10.96.1.1:80", service.ClusterIP, portal.Reject{}),
		r.portal("none", "[fd00:96::1]:80", service.ClusterIP, portal.Reject{}),
		r.portal("none", "198.51.100.1:80", service.LoadBalancerIP, portal.Reject{}),
		r.portal("none", "0.0.0.0:30080", service.NodePort, portal.Reject{}),
		r.portal("twin", "10.96.1.2:80", service.ClusterIP, to),
		r.portal("twin", "10.96.1.1:81", service.ClusterIP, to),
		r.portal("dropped", "10.96.1.1:83", service.ClusterIP, portal.Drop{}),
		r.portal("inside", "198.51.100.1:82", service.LoadBalancerIP, portal.Redirect{Port: ProxyPort, Inside: true}),
		r.portal("inside", "0.0.0.0:30082", service.NodePort, portal.Redirect{Port: ProxyPort, Inside: true}),
	}
}

// addresses are what clients dial of none.
func (r *refusing) addresses() []string {
	return []string{"10.96.1.1:80", "[fd00:96::1]:80", "198.51.100.1:80", NodeV4 + ":30080"}
}

// dial has the client dial, which is to be counted.
func (r *refusing) dial(owner, addr, want string) {
	r.Helper()
	const times = 3
	before := r.repeated()
	for range times {
		r.Expect(r.Client, "the client", "tcp", addr, want)
	}
	r.want[owner] += times + r.repeated() - before
}

// repeated is how often the client has sent its first packet again: its kernel does after a second, when a busy machine
// answers late or lets the client give up late.
func (r *refusing) repeated() (n uint64) {
	r.Helper()
	r.Client.Must(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/netstat")
		if err != nil {
			return err
		}
		names, values, _ := strings.Cut(string(text), "\n")
		values, _, _ = strings.Cut(values, "\n")
		at := slices.Index(strings.Fields(names), "TCPSynRetrans")
		n, err = strconv.ParseUint(strings.Fields(values)[at], 10, 64)
		return err
	})
	return n
}

// dialAll dials each portal.
func (r *refusing) dialAll() {
	r.Helper()
	for _, addr := range r.addresses() {
		r.dial("none", addr, Refused)
	}
	r.dial("dropped", "10.96.1.1:83", Silence)
	r.dial("inside", "198.51.100.1:82", Silence)
	r.dial("inside", NodeV4+":30082", Silence)
	for _, addr := range []string{"10.96.1.2:80", "10.96.1.1:81"} {
		r.Expect(r.Client, "the client", "tcp", addr, Answered)
	}
	r.Expect(r.Node, "the node", "tcp", "198.51.100.1:82", Answered)
}

// expect reads the counters, which are to have what was dialled.
func (r *refusing) expect(when string) {
	r.Helper()
	r.read()
	now := r.counted.now()
	for _, owner := range []string{"none", "twin", "dropped", "inside", "neighbour", "outside"} {
		if now[owner] != r.want[owner] {
			r.Errorf("%s: %d packets to %s were refused, want %d", when, now[owner], owner, r.want[owner])
		}
	}
}

func (r *refusing) read() {
	r.Helper()
	if err := r.Node.Do(func() error { return r.Writer.CountRefused(context.Background()) }); err != nil {
		r.Error(err)
	}
}

// readOn reads all the time until stop, as a scrape may at any moment.
func (r *refusing) readOn() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			r.read()
		}
	})
	return func() {
		cancel()
		ended.Wait()
	}
}

// update applies changes, which lose no count.
func (r *refusing) update(what string, changes ...portal.Change) {
	r.Helper()
	r.Node.Must(func() error { return r.Writer.Update(context.Background(), changes) })
	r.expect(what)
}

// outside: a Local policy without an endpoint of this node drops clients outside the cluster.
func (r *refusing) outside() {
	r.Helper()
	pool := &portal.Pool{Cluster: []portal.Endpoint{{Addr: netip.MustParseAddrPort(NodeV4 + ":" + fmt.Sprint(ProxyPort))}}}
	for _, p := range []portal.Portal{
		r.portal("outside", "198.51.100.1:84", service.LoadBalancerIP, portal.Spread{Pool: pool, Scope: service.NodeScope}),
		r.portal("outside", "0.0.0.0:30084", service.NodePort, portal.Spread{Pool: pool, Scope: service.NodeScope}),
	} {
		r.update("with a Local policy", portal.Change{Frontend: p.Frontend, Portal: &p})
	}
	r.dial("outside", "198.51.100.1:84", Silence)
	r.dial("outside", NodeV4+":30084", Silence)
	r.expect("after clients outside")
}

// adopt: another Writer that adopts the rules counts from then on.
func (r *refusing) adopt(open func(func(portal.Refused)) (portal.Writer, error)) {
	r.Helper()
	r.Write(r.portals())
	r.dial("none", "10.96.1.1:80", Refused)
	r.Node.Must(func() (err error) {
		next := &refusals{sum: map[string]uint64{}}
		r.counted, r.want = next, map[string]uint64{}
		if r.Writer, err = open(next.add); err != nil {
			return err
		}
		r.Writer.Guard(Guarded(true))
		return r.Writer.Adopt(context.Background(), r.portals())
	})
	r.expect("once adopted")
	r.dial("none", "10.96.1.1:80", Refused)
	r.expect("after clients of the next Writer")
}
