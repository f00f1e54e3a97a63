package modes

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
)

// What the kernel carries is counted in its own table and in records; what neither has is not known, and not 0.
func TestKernelCounts(t *testing.T) { bed.EachMode(t, kernelCounts) }

func kernelCounts(b *bed.Bed, m bed.Mode) {
	shortFlows(b)
	b.ServePods(0, 1)
	cart := func(annotations ...string) bed.Service {
		s := b.Cart(0)
		s.Mode, s.Annotations = "kernel", annotations
		return s
	}
	d := b.Start(cart(), m.Args...)
	c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
	s, e := inKernel(d, a.Pod)
	if s.Open == nil || *s.Open != 1 || s.Ended != nil || s.Failed != nil || s.BytesUp != nil || s.BytesDown != nil {
		b.Errorf("the Service without records: %+v", s)
	}
	if e.Open == nil || *e.Open != 1 || e.Dials != nil || e.Failures != nil || e.State != "used" {
		b.Errorf("the endpoint without records: %+v", e)
	}

	refusing := cart(`portald.io/kernel-records: "all"`)
	refusing.Pods = append(refusing.Pods, b.Cart(1).Pods...)
	for i := range refusing.Pods {
		refusing.Pods[i].V6 = netip.Addr{}
	}
	b.Refuse(1)
	d.Apply(refusing)
	b.Eventually("the kernel's flows to be followed", func() bool {
		return strings.Contains(d.Log.String(), "Records of connections that the kernel carries: on")
	})
	b.Eventually("failures to be counted and told", func() bool {
		_, _ = bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		expire(b)
		s, e = inKernel(d, "pod1")
		return e.Failures != nil && *e.Failures >= 3 && *e.Dials == *e.Failures && *s.Ended > *s.Failed &&
			*s.Failed >= 3 && *s.BytesDown > 0 && strings.HasPrefix(s.Problem, "1 of 2 endpoints fail connections: ") &&
			strings.Contains(e.LastError, "refused") // the flow may have expired before its SYN was answered
	})
	if e.LastErrorAt == nil || e.DialP50ms != nil {
		b.Errorf("the endpoint that refuses: %+v", e)
	}

	d.Apply(cart(`portald.io/kernel-records: "failures"`))
	s, e = inKernel(d, "pod0")
	if s.Failed == nil || s.Ended != nil || s.BytesUp != nil || e.Failures == nil || e.Dials != nil {
		b.Errorf("with records of failures alone: %+v, %+v", s, e)
	}

	other := cart()
	other.Pods = b.Cart(1).Pods
	d.Apply(other)
	if s, e = inKernel(d, a.Pod); *s.Open < 1 || e.State != adminsocket.Removed || e.Open == nil || *e.Open != 1 {
		b.Errorf("the endpoint that was removed: %+v of %+v", e, s)
	}
	if err := bed.Echoes(c, r); err != nil {
		b.Error(err)
	}
}

// inKernel returns the cart's TCP port, and its endpoint of IPv4 in a pod.
func inKernel(d *bed.Daemon, pod string) (adminsocket.Service, adminsocket.Endpoint) {
	d.Helper()
	of := adminsocket.ServiceQuery{Services: []string{"cart:http"}}
	services, err := d.Admin().Services(d.Context(), of)
	d.Must(err)
	endpoints, err := d.Admin().Endpoints(d.Context(), adminsocket.EndpointQuery{ServiceQuery: of, Pods: []string{pod}})
	d.Must(err)
	for _, e := range endpoints {
		if e.Address.Addr().Is4() {
			return services[0], e
		}
	}
	d.Fatalf("no endpoint in %s: %+v", pod, endpoints)
	return adminsocket.Service{}, adminsocket.Endpoint{}
}
