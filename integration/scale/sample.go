//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"
)

// sample is a Service with its slice and its address, as the API server made and stored them. Copies of it have the
// parts that only the API server knows: defaults, and who manages which field.
type sample struct {
	service corev1.Service
	slice   discoveryv1.EndpointSlice
	address networkingv1.IPAddress
}

// The API server's keys.
func serviceKey(name string) string        { return "/registry/services/specs/" + namespace + "/" + name }
func sliceKey(name string) string          { return "/registry/endpointslices/" + namespace + "/" + name }
func addressKey(address netip.Addr) string { return "/registry/ipaddresses/" + address.String() }

func readSample(ctx context.Context, store *etcd, name string, address netip.Addr) (*sample, error) {
	s := new(sample)
	for _, one := range []struct {
		key string
		to  runtime.Object
	}{{serviceKey(name), &s.service}, {sliceKey(name), &s.slice}, {addressKey(address), &s.address}} {
		value, err := store.read(ctx, one.key)
		if err != nil {
			return nil, err
		}
		if err := decode(value, one.to); err != nil {
			return nil, fmt.Errorf("decode %s: %w", one.key, err)
		}
	}
	return s, nil
}

// stored is how the API server stores objects: in protobuf, with a head that names the kind.
func stored() *protobuf.Serializer { return protobuf.NewSerializer(scheme.Scheme, scheme.Scheme) }

// decode fails unless encode returns the same bytes: then every field is known, and copies are alike.
func decode(value []byte, to runtime.Object) error {
	_, kind, err := stored().Decode(value, nil, to)
	if err != nil {
		return err
	}
	to.GetObjectKind().SetGroupVersionKind(*kind)
	again, err := encode(to)
	if err == nil && !bytes.Equal(again, value) {
		err = fmt.Errorf("%v is stored in another encoding than client-go's", kind)
	}
	return err
}

func encode(object runtime.Object) ([]byte, error) {
	var b bytes.Buffer
	err := stored().Encode(object, &b)
	return b.Bytes(), err
}

// entries are those of a Service with a name, a ClusterIP and endpoints of its own.
func (s *sample) entries(name string, at netip.Addr, endpoints []netip.Addr) ([]entry, error) {
	address, service, copied := s.address.DeepCopy(), s.service.DeepCopy(), s.slice.DeepCopy()
	renew(&address.ObjectMeta, at.String())
	address.Spec.ParentRef.Name = name
	renew(&service.ObjectMeta, name)
	service.Spec.ClusterIP, service.Spec.ClusterIPs = at.String(), []string{at.String()}
	renew(&copied.ObjectMeta, name)
	own := slice(name, endpoints)
	copied.Labels, copied.Endpoints = own.Labels, own.Endpoints

	all := []entry{{key: addressKey(at)}, {key: serviceKey(name)}, {key: sliceKey(name)}}
	for i, object := range []runtime.Object{address, service, copied} {
		var err error
		if all[i].value, err = encode(object); err != nil {
			return nil, fmt.Errorf("encode %s: %w", all[i].key, err)
		}
	}
	return all, nil
}

// renew sets what is different in each object.
func renew(m *metav1.ObjectMeta, name string) {
	now := metav1.Now()
	m.Name, m.UID, m.CreationTimestamp = name, uuid.NewUUID(), now
	for i := range m.ManagedFields {
		m.ManagedFields[i].Time = &now
	}
}
