package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// annotated sets portald's annotations of a Service and changes the number of its first two ports: once clients are
// answered at the new number, the settings are in effect.
func annotated(n *cluster.Namespace, service string, port int32, settings map[string]string) {
	n.Helper()
	n.ChangeService(service, func(s *corev1.Service) {
		s.Annotations = map[string]string{}
		for name, value := range settings {
			s.Annotations["portald.io/"+name] = value
		}
		s.Spec.Ports[0].Port, s.Spec.Ports[1].Port = port, port
	})
}

// dials checks that the number of connect attempts and their timeouts follow the Service's annotations.
func dials(b *apibed.Bed, n *cluster.Namespace) {
	site := b.Sites[0]
	s := n.Service("cart", corev1.ServiceSpec{Ports: apibed.Web()})
	for i := range 4 { // unused addresses, without an ICMP error
		n.Pod(fmt.Sprint("silent", i), "cart", "a", &topology.Host{IPv4: netip.AddrFrom4([4]byte{10, 244, 0, byte(201 + i)})})
	}
	for i, want := range []struct {
		settings map[string]string
		atLeast  []float64
	}{
		{map[string]string{"connect-timeouts": "300ms,350ms"}, []float64{300, 350}},
		{map[string]string{"connect-timeouts": "300ms,350ms", "retries": "2"}, []float64{300, 350, 350}},
		{map[string]string{"retries": "0"}, []float64{250}},
	} {
		port := 81 + i
		annotated(n, "cart", int32(port), want.settings)
		var r bed.Record
		b.Eventually(fmt.Sprintf("%d dials", len(want.atLeast)), func() bool {
			a, _ := bed.AskWithin(apibed.AnswerTimeout, site.Client, "tcp", bed.HostPort(s.Spec.ClusterIP, port))
			if !a.Client.IsValid() {
				return false // the new port is not served yet
			}
			r = site.D.RecordOf(a)
			return r.Outcome == "dial_failed" && len(r.Attempts) == len(want.atLeast)
		})
		for i, a := range r.Attempts {
			if a.MS < want.atLeast[i]-1 || a.Error != "timeout" {
				b.Errorf("%v: dial %d ended after %v ms (%s), want at least %v", want.settings, i, a.MS, a.Error, want.atLeast[i])
			}
		}
	}
}

// idleTimeouts checks that idle connections and sessions end after the timeouts of the Service's annotations.
func idleTimeouts(b *apibed.Bed, n *cluster.Namespace) {
	site := b.Sites[0]
	s := n.Service("cart", corev1.ServiceSpec{Ports: append(apibed.Web(),
		corev1.ServicePort{Name: "held", Port: 90, TargetPort: intstr.FromInt32(serveOpen(b, "a0"))})})
	b.AddPods(n, "cart", "a0")
	annotated(n, "cart", 81, map[string]string{"idle-timeout": "700ms", "half-close-timeout": "400ms",
		"udp-timeout": "600ms"})
	address := bed.HostPort(s.Spec.ClusterIP, 81)
	b.AnswersBoth(site.Client, address, "a0")

	idle, half := open(b, site.Client, address), open(b, site.Client, bed.HostPort(s.Spec.ClusterIP, 90))
	if err := half.(*net.TCPConn).CloseWrite(); err != nil {
		b.Fatal(err)
	}
	session, err := bed.Ask(site.Client, "udp", address)
	if err != nil {
		b.Fatal(err)
	}
	for outcome, c := range map[string]net.Conn{"idle_timeout": idle, "half_close_timeout": half} {
		if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			b.Errorf("%s: %v", outcome, err)
		}
		if r := site.D.RecordOf(bed.Answer{Client: bed.LocalAddr(c)}); r.Outcome != outcome || r.CloseType != "timeout" {
			b.Errorf("recorded as %s, want %s", r, outcome)
		}
	}
	if r := site.D.RecordOf(session); r.Outcome != "ok" || r.DurationMS < 599 {
		b.Errorf("recorded as %s after %v ms, want ok after 600", r, r.DurationMS)
	}
}

// serveOpen starts a server in a pod, at a free port, that keeps connections open until the test ends.
func serveOpen(b *apibed.Bed, pod string) int32 {
	b.Helper()
	const port = 8090
	release := make(chan struct{})
	b.Sites[pod[0]-'a'].Serve(b.Pod(pod), port, func(c *net.TCPConn) {
		_, _ = io.Copy(io.Discard, c)
		<-release
	})
	b.Cleanup(func() { close(release) })
	return port
}

// open connects and keeps the connection open until the test ends.
func open(b *apibed.Bed, client *topology.Host, address string) net.Conn {
	b.Helper()
	c, err := bed.Dial(apibed.ChangeTimeout, client, "tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// connectionLimit checks that connections above the limit of the Service are refused until others have ended.
func connectionLimit(b *apibed.Bed, n *cluster.Namespace) {
	site := b.Sites[0]
	s := n.Service("cart", corev1.ServiceSpec{Ports: apibed.Web()})
	b.AddPods(n, "cart", "a0")
	annotated(n, "cart", 81, map[string]string{"max-connections": "2"})
	address := bed.HostPort(s.Spec.ClusterIP, 81)
	b.Answers(site.Client, "tcp", address, "a0")
	var conns [2]net.Conn
	for i := range conns {
		// Who asked before is counted until the proxy has seen both sides end.
		site.Eventually("a connection within the limit to be served", func() bool {
			c, err := bed.Dial(apibed.ChangeTimeout, site.Client, "tcp", address)
			if err != nil {
				return false
			}
			conns[i] = c
			b.Cleanup(func() { c.Close() })
			_, err = c.Read(make([]byte, 1))
			return err == nil
		})
	}
	if a, err := bed.Ask(site.Client, "tcp", address); err == nil {
		b.Errorf("the third concurrent connection is answered by %s", a.Pod)
	}
	refusal := func(r bed.Record) bool { return r.Outcome == "limit" && r.Service == "connection-limit/cart:http" }
	if r := site.D.RecordWhere("of a refusal", refusal); r.Endpoint != "" {
		b.Errorf("refused after a dial: %s", r)
	}
	b.Answers(b.Sites[1].Client, "tcp", address, "a0") // the limit is per node
	conns[0].Close()
	b.Answers(site.Client, "tcp", address, "a0")
}
