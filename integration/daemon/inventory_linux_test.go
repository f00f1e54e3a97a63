package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
)

// endpointsOf returns the endpoints of the cart's TCP port by pod.
func endpointsOf(d *bed.Daemon) map[string]adminsocket.Endpoint {
	d.Helper()
	all, err := d.Admin().Endpoints(d.Context(), adminsocket.EndpointQuery{
		ServiceQuery: adminsocket.ServiceQuery{Services: []string{"cart:http"}},
	})
	d.Must(err)
	out := map[string]adminsocket.Endpoint{}
	for _, e := range all {
		if e.Address.Addr().Is4() {
			_, pod, _ := strings.Cut(e.Pod, "/")
			out[pod] = e
		}
	}
	return out
}

// Services are shown with the holders and targets of their frontends, and with the traffic that was carried.
func TestServicesAreShown(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	claims := b.Simple("zebra", bed.IP4, 0)
	empty := b.Simple("empty", "10.96.8.8", 0)
	empty.Pods = nil
	d := b.Start(b.Cart(0).String() + "---\n" + claims.String() + "---\n" + empty.String())
	c, _, _ := b.Open(bed.HostPort(bed.IP4, 80))
	for range 3 {
		_, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		b.Must(err)
	}
	client, shown := d.Admin(), map[string]adminsocket.Service{}
	b.Eventually("the connections to be counted", func() bool {
		all, err := client.Services(t.Context(), adminsocket.ServiceQuery{Namespaces: []string{"shop"}})
		b.Must(err)
		for _, s := range all {
			shown[s.Name] = s
		}
		return *shown["shop/cart:http"].Ended == 3
	})
	cart := shown["shop/cart:http"]
	if cart.Mode != "userspace" || cart.ModeFrom != "default" || *cart.Open != 1 || *cart.Failed != 0 ||
		cart.Usable == 0 || cart.Usable != cart.Endpoints || *cart.BytesDown != 4*5 || cart.Problem != "" {
		t.Errorf("%+v", cart)
	}
	if counts := cart.FirstByte.Counts; *cart.FailedDials != 0 || *cart.Replays != 0 || len(counts) !=
		len(cart.FirstByte.BoundsMS)+1 || sum(counts) != 3 {
		t.Errorf("retries and first bytes: %d %d %+v", *cart.FailedDials, *cart.Replays, cart.FirstByte)
	}
	if f := cart.Frontends[0]; f.Address.String() != bed.HostPort(bed.IP4, 80) || f.Kind != "ClusterIP" ||
		f.Target != "redirect" || f.Port == 0 || f.Holder != "" {
		t.Errorf("%+v", f)
	}
	if f := shown["shop/zebra:http"].Frontends[0]; f.Holder != "shop/cart:http" {
		t.Errorf("what another Service holds: %+v", f)
	}
	held := bed.HostPort(bed.IP4, 80) + "/tcp is held by shop/cart:http"
	if s := shown["shop/zebra:http"]; !strings.Contains(s.Problem, held) {
		t.Errorf("the problem of a frontend that another Service holds: %q", s.Problem)
	}
	if s := shown["shop/empty:http"]; s.Usable != 0 || s.Frontends[0].Target != "reject" || s.Problem != "no endpoint" {
		t.Errorf("without endpoints: %+v", s)
	}
	_ = c.Close()
}

func sum(all []uint64) (n uint64) {
	for _, one := range all {
		n += one
	}
	return n
}

// Endpoints are shown with the results that connections report.
func TestEndpointsAreShown(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	b.Refuse(1)
	d := b.Start(b.Cart(0, 1))
	for range 6 {
		_, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		b.Must(err)
	}
	b.Open(bed.HostPort(bed.IP4, 80))
	_, err := bed.Ask(b.Client, "udp", bed.HostPort(bed.IP4, 80))
	b.Must(err)
	sessions, err := d.Admin().Connections(t.Context(), adminsocket.ConnectionQuery{Protocols: []string{"udp"}})
	if err != nil || len(sessions) != 1 || sessions[0].FirstByteMS == nil || *sessions[0].FirstByteMS <= 0 ||
		sessions[0].EndpointState != "used" {
		t.Errorf("%+v %v", sessions, err)
	}
	var good, bad adminsocket.Endpoint
	b.Eventually("all to be counted", func() bool {
		all := endpointsOf(d)
		good, bad = all["pod0"], all["pod1"]
		return *good.Open == 1
	})
	if good.State != "used" || *good.Dials != 7 || *good.Failures != 0 || good.DialP50ms == nil || *good.DialP50ms <= 0 ||
		*good.DialP99ms < *good.DialP50ms || good.FirstByteP50ms == nil || good.LastError != "" {
		t.Errorf("%+v", good)
	}
	all, err := d.Admin().Services(t.Context(), adminsocket.ServiceQuery{Services: []string{"cart:http"}})
	b.Must(err)
	if s := all[0]; s.Usable != s.Endpoints-1 || !strings.HasPrefix(s.Problem, "1 of ") ||
		!strings.Contains(s.Problem, bad.Address.String()+" (refused)") {
		t.Errorf("with an endpoint that is ejected: %+v", s)
	}
	d.Apply(b.Cart(1))
	removed, err := d.Admin().Connections(t.Context(), adminsocket.ConnectionQuery{
		EndpointStates: []string{adminsocket.Removed}, Protocols: []string{"tcp"}})
	if err != nil || len(removed) != 1 || removed[0].Endpoint != good.Address || removed[0].FirstByteMS == nil {
		t.Errorf("its connection after its pod went: %+v %v", removed, err)
	}
	gone := endpointsOf(d)["pod0"]
	if gone.State != adminsocket.Removed || gone.Address != good.Address || *gone.Open != 1 {
		t.Errorf("after its pod went: %+v", gone)
	}
	if bad.State != adminsocket.Ejected || bad.EjectedFor != "refused" || bad.EjectedUntil == nil || *bad.Dials != 3 ||
		*bad.Failures != *bad.Dials || bad.DialP50ms != nil ||
		!strings.Contains(bad.LastError, "refused") || bad.LastErrorAt == nil {
		t.Errorf("%+v", bad)
	}
}

// A drained endpoint gets no new connections and keeps its open ones, also when the list of endpoints changes, until it
// is undrained.
func TestEndpointIsDrained(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1, 2)
	d := b.Start(b.Cart(0, 1))
	client, at := d.Admin(), bed.HostPort(bed.IP4, 80)
	c, r, a := b.Open(at)
	answer, err := client.Drain(t.Context(), adminsocket.Drain{Endpoint: a.Pod, Service: "shop/cart:http"})
	if err != nil || len(answer.Done) == 0 || len(answer.Refused) != 0 {
		t.Fatalf("%+v %v", answer, err)
	}
	wants := func(when string, drained bool) {
		t.Helper()
		served := b.Tally(20, 2, b.Client, "tcp", at)
		if (served[a.Pod] == 0) != drained {
			t.Errorf("%s: %v", when, served)
		}
		if state := endpointsOf(d)[a.Pod].State; (state == adminsocket.Drained) != drained {
			t.Errorf("%s: shown as %s", when, state)
		}
	}
	wants("drained", true)
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("the open connection: %v", err)
	}
	if !strings.Contains(d.Log.String(), "Endpoint drained") || d.Metric("portald_drained_endpoints") == 0 {
		t.Error("nobody is told of the drain")
	}
	d.Apply(b.Cart(0, 1, 2))
	wants("after a change of the list", true)
	d.Apply(b.Cart(0, 1))
	other := map[string]string{"pod0": "pod1", "pod1": "pod0"}[a.Pod]
	answer, err = client.Drain(t.Context(), adminsocket.Drain{Endpoint: other, Service: "cart:http"})
	if err != nil || len(answer.Done) != 0 || len(answer.Refused) == 0 ||
		!strings.Contains(answer.Refused[0].Why, "last") {
		t.Errorf("the last endpoint: %+v %v", answer, err)
	}
	_, err = client.Undrain(t.Context(), adminsocket.Drain{Endpoint: a.Pod, Service: "cart:http"})
	b.Must(err)
	wants("undrained", false)
	_, err = client.Drain(t.Context(), adminsocket.Drain{Endpoint: "10.9.9.9:80"})
	if !errors.Is(err, adminsocket.ErrNotFound) {
		t.Errorf("of nobody: %v", err)
	}
	if _, err = client.Drain(t.Context(), adminsocket.Drain{Endpoint: "pod*"}); err == nil {
		t.Error("a pattern drains")
	}
}

// The kernel keeps connections away from no endpoint, and says so; a drain ends when it takes over.
func TestKernelDrainsNothing(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	d := b.Start(b.Cart(0, 1))
	client := d.Admin()
	if _, err := client.Drain(t.Context(), adminsocket.Drain{Endpoint: "pod0"}); err != nil {
		t.Fatal(err)
	}
	cart := b.Cart(0, 1)
	cart.Mode = "kernel"
	d.Apply(cart)
	if n := d.Metric("portald_drained_endpoints"); n != 0 || !strings.Contains(d.Log.String(), "undrained") {
		t.Errorf("%v drains", n)
	}
	answer, err := client.Drain(t.Context(), adminsocket.Drain{Endpoint: "pod0"})
	if err != nil || len(answer.Done) != 0 || len(answer.Refused) == 0 ||
		!strings.Contains(answer.Refused[0].Why, "portald.io/mode=userspace") {
		t.Errorf("%+v %v", answer, err)
	}
	all, err := client.Services(t.Context(), adminsocket.ServiceQuery{Services: []string{"cart:http"}})
	if err != nil || all[0].Mode != "kernel" || all[0].ModeFrom != "annotation" || all[0].Frontends[0].Target != "spread" {
		t.Errorf("%+v %v", all, err)
	}
}
