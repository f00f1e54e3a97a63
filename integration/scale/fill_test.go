//go:build linux

package main

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

func TestMain(m *testing.M) {
	topology.Enter()
	os.Exit(m.Run())
}

// A Service that is written to etcd equals what the API server would have made, in all fields, and it repairs none.
func TestFilledAsTheAPIServerDoes(t *testing.T) {
	cluster.Require(t)
	net, err := topology.NewCluster(t.Context(), 1, topology.Options{Name: "stock-"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	c := cluster.New(t, net.Control)
	url, err := c.EtcdURL()
	if err != nil {
		t.Fatal(err)
	}
	s := newStock(c, url, 10)
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{300, 301} { // more than two transactions; and once more
		took, err := s.fill(t.Context(), size)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d Services in %v", size, took)
	}
	expectNoRepair(t, c.Admin)
	if _, err := s.create(t.Context(), "made", s.addresses(300, 0)); err != nil {
		t.Fatal("a Service gets no address:", err)
	}
	filled, made := see(t, c.Admin, name(300)), see(t, c.Admin, "made")
	if diff := cmp.Diff(made, filled); diff != "" {
		t.Errorf("(-made +filled):\n%s", diff)
	}
	all, err := c.Admin.CoreV1().Services(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 303 {
		t.Errorf("%d Services, %v; want 303", len(all.Items), err)
	}
	if err := s.store.create(t.Context(), []entry{{serviceKey(name(0)), nil}}); err == nil {
		t.Error("a Service was overwritten")
	}
}

// expectNoRepair looks for events. Objects that the API server made itself, it may repair, as the Service of the API: a
// Service can be seen before its address.
func expectNoRepair(t *testing.T, api kubernetes.Interface) {
	t.Helper()
	time.Sleep(time.Second) // for an event to be written
	events, err := api.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Regarding.Name != liveName && e.Regarding.Name != "kubernetes" {
			t.Errorf("%s of %s: %s", e.Reason, e.Regarding.Name, e.Note)
		}
	}
}

// seen is all that the API server has of a Service.
type seen struct {
	Service corev1.Service
	Slice   discoveryv1.EndpointSlice
	Address networkingv1.IPAddress
}

// see asks for a Service, and blanks what no two have in common.
func see(t *testing.T, api kubernetes.Interface, name string) seen {
	t.Helper()
	service, err := api.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slice, err := api.DiscoveryV1().EndpointSlices(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ip := service.Spec.ClusterIP
	address, err := api.NetworkingV1().IPAddresses().Get(t.Context(), ip, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := seen{*service, *slice, *address}
	blank(t, &s.Service.ObjectMeta, name)
	blank(t, &s.Slice.ObjectMeta, name)
	blank(t, &s.Address.ObjectMeta, ip)
	if !netip.MustParsePrefix(topology.ClusterIPs4).Contains(netip.MustParseAddr(ip)) ||
		strings.Join(s.Service.Spec.ClusterIPs, " ") != ip {
		t.Errorf("%s has the ClusterIP %s and the ClusterIPs %s", name, ip, s.Service.Spec.ClusterIPs)
	}
	s.Service.Spec.ClusterIP, s.Service.Spec.ClusterIPs = "", nil
	if got := s.Slice.Labels[discoveryv1.LabelServiceName]; got != name {
		t.Errorf("the slice of %s is labelled to be %s's", name, got)
	}
	s.Slice.Labels[discoveryv1.LabelServiceName] = ""
	if got := s.Address.Spec.ParentRef.Name; got != name {
		t.Errorf("the address of %s is %s's", name, got)
	}
	s.Address.Spec.ParentRef.Name = ""
	return s
}

func blank(t *testing.T, m *metav1.ObjectMeta, name string) {
	t.Helper()
	if age := time.Since(m.CreationTimestamp.Time); m.Name != name || len(m.UID) != 36 || age < 0 || age > time.Minute {
		t.Errorf("%s is named %s, has the UID %s and is %v old", name, m.Name, m.UID, age)
	}
	m.Name, m.UID, m.ResourceVersion, m.CreationTimestamp = "", "", "", metav1.Time{}
	for i := range m.ManagedFields {
		m.ManagedFields[i].Time = nil
	}
}
