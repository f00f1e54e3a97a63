//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

const (
	namespace = "scale"
	liveName  = "live" // of the Service whose endpoints are real
	podPort   = 7001
	fillers   = 24
	changers  = 4 // that share the rate of changes
)

// stock is the Services of the API server, without selectors: their slices are ours.
type stock struct {
	api       kubernetes.Interface
	endpoints int
	size      int
	live      netip.AddrPort // where clients dial
	turns     int            // changes so far: an update that says what is there already reaches nobody
}

func newStock(api kubernetes.Interface, endpoints int) *stock {
	return &stock{api: api, endpoints: endpoints}
}

// open makes the namespace and the Service that clients use.
func (s *stock) open(ctx context.Context) error {
	_, err := s.api.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made, err := s.create(ctx, liveName, []netip.Addr{netip.MustParseAddr("10.244.255.1")})
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(made.Spec.ClusterIP)
	s.live = netip.AddrPortFrom(ip, 80)
	return err
}

// fill adds Services up to a number.
func (s *stock) fill(ctx context.Context, size int) (time.Duration, error) {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fillers)
	for i := s.size; i < size && ctx.Err() == nil; i++ {
		group.Go(func() error {
			_, err := s.create(ctx, name(i), s.addresses(i, 0))
			return err
		})
	}
	err := group.Wait()
	s.size = size
	return time.Since(began), err
}

func (s *stock) create(ctx context.Context, name string, at []netip.Addr) (*corev1.Service, error) {
	made, err := s.api.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80,
			TargetPort: intstr.FromInt32(podPort)}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	_, err = s.api.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice(name, at), metav1.CreateOptions{})
	return made, err
}

// set replaces the endpoints of a Service.
func (s *stock) set(ctx context.Context, name string, at ...netip.Addr) error {
	_, err := s.api.DiscoveryV1().EndpointSlices(namespace).Update(ctx, slice(name, at), metav1.UpdateOptions{})
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
