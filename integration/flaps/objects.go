//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	clusterCIDR = "10.244.0.0/16"
	namespace   = metav1.NamespaceDefault
	portName    = "it"
)

// createService creates the Service of a client, with all endpoints ready.
func (b *bed) createService(ctx context.Context, c client) error {
	_, err := b.api.Admin.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: c.name, Annotations: b.annotations},
		Spec: corev1.ServiceSpec{
			ClusterIP: c.service.Addr().String(),
			Ports: []corev1.ServicePort{{Name: portName, Protocol: corev1.ProtocolTCP, Port: int32(c.service.Port()),
				TargetPort: intstr.FromInt32(int32(c.service.Port()))}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = b.api.Admin.DiscoveryV1().EndpointSlices(namespace).Create(ctx, b.slice(c), metav1.CreateOptions{})
	return err
}

// slice is the EndpointSlice of a client's Service.
func (b *bed) slice(c client) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: c.name,
			Labels: map[string]string{discoveryv1.LabelServiceName: c.name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new(portName), Protocol: new(corev1.ProtocolTCP),
			Port: new(int32(c.service.Port()))}},
	}
	for i, p := range b.pods {
		ready := !b.unready[i]
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{p.host.IPv4.String()},
			NodeName: &b.node, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready}})
	}
	return s
}

// setReady writes into all slices whether an endpoint is ready, as a controller does after a probe.
func (b *bed) setReady(ctx context.Context, pod int, ready bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unready[pod] = !ready
	for _, c := range b.clients {
		_, err := b.api.Admin.DiscoveryV1().EndpointSlices(namespace).Update(ctx, b.slice(c), metav1.UpdateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteServices deletes them with their slices, which no controller would have to do.
func (b *bed) deleteServices(ctx context.Context) error {
	for _, c := range b.clients {
		err := b.api.Admin.CoreV1().Services(namespace).Delete(ctx, c.name, metav1.DeleteOptions{})
		if err != nil && !strings.Contains(err.Error(), "not found") {
			return fmt.Errorf("delete Service %s: %w", c.name, err)
		}
		err = b.api.Admin.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, c.name, metav1.DeleteOptions{})
		if err != nil && !strings.Contains(err.Error(), "not found") {
			return fmt.Errorf("delete EndpointSlice %s: %w", c.name, err)
		}
	}
	return nil
}

// recovery is the time until a readiness probe finds that an endpoint is back: its period.
const recovery = time.Second
