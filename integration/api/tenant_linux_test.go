package api

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// hostile is a tenant of one node whose EndpointSlices have what the API server does not check, next to the Service of
// somebody else.
type hostile struct {
	*apibed.Bed
	site  *apibed.Site
	conns []openConn
}

type openConn struct {
	whose string
	net.Conn
	r  *bufio.Reader
	at netip.AddrPort
}

// slice writes an EndpointSlice of a Service without a selector, with one endpoint.
func (h *hostile) slice(n *cluster.Namespace, service string, pod int, change func(*discoveryv1.Endpoint)) {
	h.Helper()
	e := discoveryv1.Endpoint{Addresses: []string{h.site.Net.Pod(pod).IPv4.String()}, NodeName: &h.site.Name}
	change(&e)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{e},
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(bed.PodPort))}},
	}
	n.EndpointSlice(s) // which the API server takes
}

// serve makes a Service that the tenant writes the slice of, and opens connections to it.
func (h *hostile) serve(n *cluster.Namespace, service string, conns int, change func(*discoveryv1.Endpoint)) {
	h.Helper()
	s := n.Service(service, corev1.ServiceSpec{Selector: map[string]string{}, Ports: apibed.Web()[:1]})
	h.slice(n, service, 1, change)
	h.open(service, s.Spec.ClusterIP, conns, "a1")
}

// open opens connections to a Service, once it is served.
func (h *hostile) open(whose, ip string, n int, pod string) {
	h.Helper()
	h.Answers(h.site.Client, "tcp", apibed.On80(ip), pod)
	for range n {
		c, r, a := h.site.Open(apibed.On80(ip))
		h.conns = append(h.conns, openConn{whose, c, r, a.Client})
	}
}

// stillEcho fails the test for connections that no longer echo.
func (h *hostile) stillEcho(after string) {
	h.Helper()
	broken := map[string]int{}
	for _, c := range h.conns {
		if err := bed.Echoes(c, c.r); err != nil {
			broken[c.whose]++
		}
	}
	if len(broken) > 0 {
		h.Fatalf("connections that broke after %s, by Service: %v", after, broken)
	}
}

// kept waits until the keeper has all connections.
func (h *hostile) kept(d *bed.Daemon) {
	h.Helper()
	h.Eventually("the keeper to have all", func() bool {
		return d.Metric("portald_keeper_connected") == 1 &&
			d.Metric(`portald_resource_used{resource="kept_connections"}`) == float64(len(h.conns))
	})
}

// A tenant writes names into EndpointSlices that are as long as the API server allows, and that of a pod of somebody
// else. Connections of all go on after a crash and after a take-over, and the records of others stay.
func TestHostileNames(t *testing.T) {
	b := apibed.New(t, 1, 3)
	h := &hostile{Bed: b, site: b.Sites[0]}
	folder := h.site.ShortDir()
	socket, records := filepath.Join(folder, "keep.sock"), filepath.Join(folder, "records")
	h.site.Exec(h.site.Line("keep", "--socket", socket)...)
	h.site.Eventually("the keeper", func() bool { _, err := os.Stat(socket); return err == nil })
	d := h.ServeOn(h.site, "--keep-socket="+socket, "--connection-log="+records)

	shop, tenant := b.API.Namespace(t, "shop"), b.API.Namespace(t, "tenant")
	cart := shop.Service("cart", corev1.ServiceSpec{Ports: apibed.Web()})
	h.AddPods(shop, "cart", "a0")
	h.open("cart", cart.Spec.ClusterIP, 20, "a0")
	type named struct{ size, conns int }
	for name, c := range map[string]named{"many": {3000, 80}, "some": {20_000, 50}, "one": {200_000, 1}} {
		h.serve(tenant, name, c.conns, func(e *discoveryv1.Endpoint) {
			e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: strings.Repeat("x", c.size)}
		})
	}
	h.serve(tenant, "zone", 20, func(e *discoveryv1.Endpoint) { e.Zone = new(strings.Repeat("z", 10_000)) })
	h.serve(tenant, "forged", 1, func(e *discoveryv1.Endpoint) {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "a0"}
	})

	h.kept(d)
	d.Signal(syscall.SIGKILL)
	<-d.Ended
	d = d.Succeed()
	d.WaitReady()
	h.stillEcho("a crash")
	h.kept(d)
	next := d.Succeed()
	next.Eventually("the take-over", func() bool { return strings.Contains(next.Log.String(), "Took over from") })
	if log := next.Log.String(); !strings.Contains(log, fmt.Sprintf(": %d connections, 0 UDP sessions", len(h.conns))) {
		t.Errorf("not all were taken over:\n%s", log)
	}
	<-d.Ended
	h.stillEcho("a take-over")
	h.kept(next)

	for _, c := range h.conns {
		c.Close()
	}
	var all []bed.Record
	next.Eventually("all records", func() bool {
		all = bed.ReadRecords(t, records)
		return len(all) >= len(h.conns)
	})
	pods := map[string]map[string]bool{}
	for _, r := range all {
		if pods[r.Service] == nil {
			pods[r.Service] = map[string]bool{}
		}
		pods[r.Service][r.Pod] = true
	}
	for service, want := range map[string]string{"shop/cart:http": "shop/a0", "tenant/many:http": "",
		"tenant/some:http": "", "tenant/one:http": "", "tenant/forged:http": ""} {
		if got := pods[service]; len(got) != 1 || !got[want] {
			t.Errorf("records of %s name the pods %.200v, want %q", service, got, want)
		}
	}
	if info, err := os.Stat(records); err != nil || info.Size() > int64(2000*len(all)) {
		t.Errorf("%d records take %d bytes, %v", len(all), info.Size(), err)
	}
}

// A tenant writes a Service and a slice with as many ports and endpoints as the API server takes: each port has each
// endpoint. Others are served in time, and the node's memory is not used up.
func TestHostileLists(t *testing.T) {
	const ports, endpoints = 4000, 1000
	b := apibed.New(t, 1, 3)
	site := b.Sites[0]
	d := b.ServeOn(site, "--proxy-mode=nftables")
	shop, tenant := b.API.Namespace(t, "shop"), b.API.Namespace(t, "tenant")
	spec := corev1.ServiceSpec{Selector: map[string]string{}}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "many", Labels: map[string]string{discoveryv1.LabelServiceName: "many"}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for i := range ports {
		name := fmt.Sprint("p", i)
		spec.Ports = append(spec.Ports, corev1.ServicePort{Name: name, Port: int32(i + 1)})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: new(int32(i + 1))})
	}
	for i := range endpoints {
		slice.Endpoints = append(slice.Endpoints,
			discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.250.%d.%d", i/256, i%256)}})
	}
	tenant.Service("many", spec)
	tenant.EndpointSlice(slice)
	cart := shop.Service("cart", corev1.ServiceSpec{Ports: apibed.Web()})
	b.AddPods(shop, "cart", "a0")
	b.Answers(site.Client, "tcp", apibed.On80(cart.Spec.ClusterIP), "a0")
	d.Eventually("the tenant to be told", func() bool {
		return strings.Contains(d.Log.String(), "make more Services of it")
	})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Cmd.Process.Pid))
	site.Must(err)
	peak := regexp.MustCompile(`VmHWM:.*`).FindString(string(status))
	t.Logf("portald: %s", peak)
}
