package api

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"

	corev1 "k8s.io/api/core/v1"

	discoveryv1 "k8s.io/api/discovery/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Services by number: those below changing get new endpoints repeatedly, those below deletedTo are deleted, and those
// below movedTo get another port.
const (
	manyServices  = 2000
	manyEndpoints = 10
	changing      = 160
	deletedTo     = changing + 20
	movedTo       = deletedTo + 20
	manyChanges   = 480 // changes of endpoints
	manyRate      = 60  // changes of endpoints per second
	writers       = 8   // concurrent clients that write changes
	manyPort      = 9001
)

// many is the test bed with many Services. Every endpoint has a distinct address, which encodes its Service and change.
// All these addresses are routed to one pod, whose server answers with the address that was dialled.
type many struct {
	bed  *apibed.Bed
	site *apibed.Site
	all  []*scaled

	looks sync.WaitGroup // calls of look
	mu    sync.Mutex
	took  []time.Duration // from the write of a change until a client reached its endpoints
}

// scaled is one of the Services.
type scaled struct {
	number     int
	ip         string
	port       int
	deleted    bool
	service    *corev1.Service
	slice      *discoveryv1.EndpointSlice
	generation int // number of the last change of endpoints
}

// manyRange contains the addresses of these endpoints. Pod addresses have more specific routes.
const manyRange = "10.128.0.0/9"

func newMany(b *apibed.Bed) *many {
	b.Helper()
	m := &many{bed: b, site: b.Sites[0]}
	pod := m.site.Net.Pod(0)
	m.site.On(pod, "ip", "route", "add", "local", manyRange, "dev", "lo")
	m.site.On(m.site.Node, "ip", "route", "add", manyRange, "via", pod.IPv4.String())
	m.site.Bed.Serve(pod, manyPort, func(c *net.TCPConn) { bed.NamesItself(bed.LocalAddr(c).Addr().String())(c) })
	b.API.Namespace(b, "many")
	for i := range manyServices {
		m.all = append(m.all, &scaled{number: i, port: 80})
	}
	each(b, manyServices, func(i int) error { return m.create(m.all[i]) })
	return m
}

// each calls f for 0 … n-1, several concurrently. An error ends the test.
func each(b *apibed.Bed, n int, f func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed[w] == nil; i = int(next.Add(1)) - 1 {
				failed[w] = f(i)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		b.Fatal(err)
	}
}

func (s *scaled) name() string { return fmt.Sprint("s", s.number) }

// endpoints returns the current endpoints.
func (s *scaled) endpoints() (out []netip.Addr) {
	for i := range manyEndpoints {
		k := s.number<<12 | s.generation<<4 | i
		out = append(out, netip.AddrFrom4([4]byte{10, 128 | byte(k>>16), byte(k >> 8), byte(k)}))
	}
	return out
}

// has tells whether a server's answer is the address of a current endpoint.
func (s *scaled) has(endpoint string) bool {
	a, err := netip.ParseAddr(endpoint)
	return err == nil && slices.Contains(s.endpoints(), a)
}

// since returns the change that introduced the endpoint with this answer.
func (s *scaled) since(endpoint string) (generation int, ok bool) {
	a, err := netip.ParseAddr(endpoint)
	if err != nil || !a.Is4() {
		return 0, false
	}
	b := a.As4()
	k := int(b[1]&127)<<16 | int(b[2])<<8 | int(b[3])
	return k >> 4 & 255, k>>12 == s.number
}

func (m *many) create(s *scaled) (err error) {
	ctx, admin := m.bed.Context(), m.bed.API.Admin
	if s.service, err = admin.CoreV1().Services("many").Create(ctx, serviceOf(s.name()),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	s.ip = s.service.Spec.ClusterIP
	s.slice, err = admin.DiscoveryV1().EndpointSlices("many").
		Create(ctx, sliceOf(s.name(), manyPort, s.endpoints()...), metav1.CreateOptions{})
	return err
}

// change replaces the endpoints of a Service, with the time of the change in the slice, as the controller writes it.
func (m *many) change(s *scaled) (err error) {
	s.generation++
	slice := s.slice.DeepCopy()
	slice.Endpoints = endpointsOf(s.endpoints()...)
	slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().Format(time.RFC3339Nano)}
	s.slice, err = m.bed.API.Admin.DiscoveryV1().EndpointSlices("many").Update(m.bed.Context(), slice,
		metav1.UpdateOptions{})
	return err
}

func (m *many) remove(s *scaled) error {
	ctx, admin := m.bed.Context(), m.bed.API.Admin
	s.deleted = true
	return errors.Join(admin.CoreV1().Services("many").Delete(ctx, s.name(), metav1.DeleteOptions{}),
		admin.DiscoveryV1().EndpointSlices("many").Delete(ctx, s.name(), metav1.DeleteOptions{}))
}

func (m *many) move(s *scaled) (err error) {
	s.port++
	s.service.Spec.Ports[0].Port = int32(s.port)
	s.service, err = m.bed.API.Admin.CoreV1().Services("many").Update(m.bed.Context(), s.service, metav1.UpdateOptions{})
	return err
}

// roll makes all changes, those of endpoints at manyRate, and lets clients wait for some of them.
func (m *many) roll() {
	m.bed.Helper()
	began := time.Now()
	var others sync.WaitGroup
	others.Go(func() {
		for i := range deletedTo - changing {
			if err := errors.Join(m.remove(m.all[changing+i]), m.move(m.all[deletedTo+i])); err != nil {
				m.bed.Error(err)
			}
		}
	})
	// Each writer has its own Services, so that the changes of one Service are in order.
	each(m.bed, writers, func(w int) error {
		pace := time.NewTicker(writers * time.Second / manyRate)
		defer pace.Stop()
		for i := range manyChanges / writers {
			s := m.all[(i*writers+w)%changing]
			at := time.Now()
			if err := m.change(s); err != nil {
				return err
			}
			if i%4 == w%4 {
				m.look(s, at)
			}
			<-pace.C
		}
		return nil
	})
	others.Wait()
	m.bed.Logf("%d changes in %v", manyChanges+movedTo-changing, since(began))
	m.looks.Wait()
	slices.Sort(m.took)
	if n := len(m.took); n > 0 {
		m.bed.Logf("%d changes checked, visible to clients after: p50 %v, p99 %v", n, m.took[n/2], m.took[n*99/100])
	}
}

// look sends requests to a Service until an endpoint of this change or a later one answers.
func (m *many) look(s *scaled, changed time.Time) {
	to, generation := bed.HostPort(s.ip, s.port), s.generation
	m.looks.Go(func() {
		var last string
		if bed.Within(apibed.ChangeTimeout, func() bool {
			a, err := bed.Ask(m.site.Client, "tcp", to)
			last = fmt.Sprint(a.Pod, err)
			is, ours := s.since(a.Pod)
			return ours && is >= generation
		}) {
			m.mu.Lock()
			m.took = append(m.took, since(changed))
			m.mu.Unlock()
			return
		}
		m.bed.Errorf("%s was changed %d times, but clients still reach %s", s.name(), generation, last)
	})
}
