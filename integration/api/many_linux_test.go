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

// How many Services there are, and what becomes of them: those before changing get other endpoints again and again,
// those before deletedTo are deleted, and those before movedTo get another port.
const (
	manyServices  = 2000
	manyEndpoints = 10
	changing      = 160
	deletedTo     = changing + 20
	movedTo       = deletedTo + 20
	manyChanges   = 480 // of endpoints
	manyRate      = 60  // of those, a second
	writers       = 8   // at once
	manyPort      = 9001
)

// many is the bed of many Services. Every endpoint has an address of its own, which tells whose it is and since which
// change. All of them lead to one pod, where a server calls itself by the address at which it was reached.
type many struct {
	bed  *apibed.Bed
	site *apibed.Site
	all  []*scaled

	looks sync.WaitGroup // of clients for changes
	mu    sync.Mutex
	took  []time.Duration // from before a change was written until a client met it
}

// scaled is one of the Services.
type scaled struct {
	number     int
	ip         string
	port       int
	deleted    bool
	service    *corev1.Service
	slice      *discoveryv1.EndpointSlice
	generation int // of the endpoints
}

// The addresses of endpoints. Pods have others, to which narrower routes lead.
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

// each calls f for 0 … n-1, some at once. The first errors end the test.
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

// endpoints are those of now.
func (s *scaled) endpoints() (out []netip.Addr) {
	for i := range manyEndpoints {
		k := s.number<<12 | s.generation<<4 | i
		out = append(out, netip.AddrFrom4([4]byte{10, 128 | byte(k>>16), byte(k >> 8), byte(k)}))
	}
	return out
}

// has tells whether the endpoint that calls itself so is one of now.
func (s *scaled) has(endpoint string) bool {
	a, err := netip.ParseAddr(endpoint)
	return err == nil && slices.Contains(s.endpoints(), a)
}

// since tells of an endpoint that calls itself so from which change on the Service has it.
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

// change gives a Service other endpoints, and tells in the slice when that happened, as the controller does.
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

// roll makes all changes, those of endpoints at their rate, and has clients look for some of them.
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
	// Each of them has Services of its own: their changes follow one another.
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
		m.bed.Logf("%d changes looked for, met by clients after: p50 %v, p99 %v", n, m.took[n/2], m.took[n*99/100])
	}
}

// look has a client ask a Service that changed at that time, until it meets this change or a later one.
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
		m.bed.Errorf("%s was changed %d times, and clients meet %s", s.name(), generation, last)
	})
}
