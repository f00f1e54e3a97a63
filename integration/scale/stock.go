//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/portald/portald/integration/cluster"
)

const (
	namespace = "scale"
	liveName  = "live" // of the Service whose endpoints are real
	podPort   = 7001
	changers  = 4 // that share the rate of changes
)

// stock is the Services of the API server, without selectors: their slices are ours.
type stock struct {
	plane     *cluster.Cluster
	store     *etcd
	endpoints int
	sample    *sample
	drawn     map[netip.Addr]bool // ClusterIPs
	size      int
	live      netip.AddrPort // where clients dial
	turns     int            // changes so far: an update that says what is there already reaches nobody
}

// newStock makes one for a control plane whose etcd is at a URL.
func newStock(plane *cluster.Cluster, etcdURL string, endpoints int) *stock {
	client := &http.Client{Transport: &http.Transport{DialContext: plane.Host.Dial}}
	return &stock{plane: plane, store: &etcd{etcdURL, client}, endpoints: endpoints, drawn: map[netip.Addr]bool{}}
}

// open makes the namespace and the Service that clients use, of which all others are copies.
func (s *stock) open(ctx context.Context) error {
	_, err := s.plane.Admin.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made, err := s.create(ctx, liveName, []netip.Addr{netip.MustParseAddr("10.244.255.1")})
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(made.Spec.ClusterIP)
	if err != nil {
		return err
	}
	s.live, s.drawn[ip] = netip.AddrPortFrom(ip, 80), true
	if s.sample, err = readSample(ctx, s.store, liveName, ip); err != nil {
		return err
	}
	return s.awaitControllers(ctx)
}

// awaitControllers waits for the work of one of them, which shows that all run: then they bear that the API server is
// away, and before, they end.
func (s *stock) awaitControllers(ctx context.Context) error {
	const pause, within = 20 * time.Millisecond, time.Minute
	return wait.PollUntilContextTimeout(ctx, pause, within, true, func(ctx context.Context) (bool, error) {
		_, err := s.plane.Admin.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

func (s *stock) create(ctx context.Context, name string, at []netip.Addr) (*corev1.Service, error) {
	made, err := s.plane.Admin.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80,
			TargetPort: intstr.FromInt32(podPort)}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	_, err = s.plane.Admin.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice(name, at), metav1.CreateOptions{})
	return made, err
}

// set replaces the endpoints of a Service.
func (s *stock) set(ctx context.Context, name string, at ...netip.Addr) error {
	_, err := s.plane.Admin.DiscoveryV1().EndpointSlices(namespace).Update(ctx, slice(name, at), metav1.UpdateOptions{})
	return err
}

// churn changes the endpoints of one Service after the other, so many a second, until ctx ends, and returns how many.
func (s *stock) churn(ctx context.Context, rate int) (changes int, err error) {
	group, within := errgroup.WithContext(ctx)
	jobs, first := make(chan int), s.turns
	for range changers {
		group.Go(func() error {
			for i := range jobs {
				if err := s.set(within, name(i*7919%s.size), s.addresses(i, 1+i)...); err != nil && ctx.Err() == nil {
					return err
				}
			}
			return nil
		})
	}
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for within.Err() == nil {
		select {
		case <-within.Done():
		case <-tick.C:
			select {
			case jobs <- s.turns:
				s.turns++
			case <-within.Done():
			}
		}
	}
	close(jobs)
	return s.turns - first, group.Wait()
}

func name(i int) string { return fmt.Sprintf("s%05d", i) }

// addresses are endpoints where nothing is; others for each turn.
func (s *stock) addresses(i, turn int) []netip.Addr {
	out := make([]netip.Addr, 0, s.endpoints)
	for e := range s.endpoints {
		n := (i*s.endpoints + e + turn*131) % (1 << 21)
		out = append(out, netip.AddrFrom4([4]byte{10, 200 + byte(n>>16), byte(n >> 8), byte(n)}))
	}
	return out
}

func slice(name string, at []netip.Addr) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP),
			Port: new(int32(podPort))}},
	}
	for _, a := range at {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{a.String()}, NodeName: new("elsewhere"),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "pod-" + a.String(),
				UID: "b2ea7767-2a5e-4a0c-ba6e-000000000000"},
		})
	}
	return s
}
