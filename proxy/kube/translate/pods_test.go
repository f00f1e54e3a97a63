package translate

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/portal/service"
)

func pod(name, node string, ips ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

func onHost(p *corev1.Pod) *corev1.Pod {
	p.Spec.HostNetwork = true
	return p
}

func ended(p *corev1.Pod) *corev1.Pod {
	p.Status.Phase = corev1.PodSucceeded
	return p
}

func podKey(name string) Key { return Key{KindPod, "shop", name} }

// wantWorkloads checks who has each address: "pod node zone", or "" for nobody.
func wantWorkloads(t *testing.T, c *Cache, want map[string]string) {
	t.Helper()
	for ip, text := range want {
		got := ""
		if w, known := c.Workload(netip.MustParseAddr(ip)); known {
			got = fmt.Sprintf("%s %s %s", w.Pod, w.Node, w.Zone)
		}
		if got != text {
			t.Errorf("%s is %q, want %q", ip, got, text)
		}
	}
}

// A client's address names its pod, as long as the pod has it; the node's own address names the node.
func TestWorkloads(t *testing.T) {
	c := NewCache(service.NewStore(), Options{ClientPods: true}, quiet())
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "cart"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.9"}, NodeName: new("n1"),
			Zone: new("z1")}},
	}
	c.Set(slice, pod("a", "n1", "10.1.0.1", "fd00::1"), pod("b", "n2", "10.1.0.2"), pod("new", ""),
		onHost(pod("agent", "n1", "192.0.2.1")), onHost(pod("proxy", "n1", "192.0.2.1")))
	wantWorkloads(t, c, map[string]string{
		"10.1.0.1": "shop/a n1 z1", "fd00::1": "shop/a n1 z1", "10.1.0.2": "shop/b n2 ", "10.1.0.3": "",
		"192.0.2.1": " n1 z1",
	})
	c.Set(ended(pod("a", "n1", "10.1.0.1", "fd00::1")), pod("b", "n2", "10.1.0.4"))
	c.Delete(podKey("agent"))
	wantWorkloads(t, c, map[string]string{
		"10.1.0.1": "", "fd00::1": "", "10.1.0.2": "", "10.1.0.4": "shop/b n2 ", "192.0.2.1": " n1 z1",
	})
	c.Delete(podKey("proxy"))
	c.Set(pod("heir", "n1", "10.1.0.4")) // before the end of the pod that had it is told
	c.Delete(podKey("b"))
	wantWorkloads(t, c, map[string]string{"10.1.0.4": "shop/heir n1 z1", "192.0.2.1": ""})
	c.Replace(KindPod, []Object{trimPod(pod("other", "n1", "10.1.0.5"))})
	wantWorkloads(t, c, map[string]string{"10.1.0.4": "", "10.1.0.5": "shop/other n1 z1"})
	c.Replace(KindPod, nil)
	if n := len(c.clients.pods); n != 0 {
		t.Errorf("%d pods are left", n)
	}
	for i := range c.clients.shards {
		if n := len(c.clients.shards[i].byAddr); n != 0 {
			t.Errorf("%d addresses are left", n)
		}
	}
}

// Of two pods with one address the one that lives has it, in whatever order they are told of; once that is gone, the
// other one has.
func TestWorkloadsOfOneAddress(t *testing.T) {
	const addr = "10.1.0.1"
	ends := func(p *corev1.Pod) *corev1.Pod {
		p.DeletionTimestamp = new(metav1.Now())
		return p
	}
	gone, live := pod("gone", "n1", addr), pod("live", "n2", addr)
	for name, order := range map[string][]*corev1.Pod{
		"the one that ends first": {ends(gone), live}, "the one that lives first": {live, ends(gone)},
		"an end that is told late": {gone, live, ends(gone)}, "a change of the one that ends": {ends(gone), live, ends(gone)},
		"three": {ends(gone), ends(pod("before", "n3", addr)), live, ends(gone)},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCache(service.NewStore(), Options{ClientPods: true}, quiet())
			for _, p := range order {
				c.Set(p)
			}
			wantWorkloads(t, c, map[string]string{addr: "shop/live n2 "})
			c.Delete(podKey("gone"))
			wantWorkloads(t, c, map[string]string{addr: "shop/live n2 "})
			c.Set(ends(gone))
			c.Delete(podKey("live"))
			wantWorkloads(t, c, map[string]string{addr: "shop/gone n1 "})
			c.Set(live)
			wantWorkloads(t, c, map[string]string{addr: "shop/live n2 "})
			for _, name := range []string{"before", "live", "gone"} {
				c.Delete(podKey(name))
			}
			wantWorkloads(t, c, map[string]string{addr: ""})
			for i := range c.clients.shards {
				if s := &c.clients.shards[i]; len(s.byAddr)+len(s.others) != 0 {
					t.Errorf("left: %v, %v", s.byAddr, s.others)
				}
			}
		})
	}
}

// Pods are not stored where nobody asks for them.
func TestNoWorkloads(t *testing.T) {
	c := NewCache(service.NewStore(), Options{}, quiet())
	c.Set(pod("a", "n1", "10.1.0.1"))
	wantWorkloads(t, c, map[string]string{"10.1.0.1": ""})
	if len(c.clients.pods) != 0 {
		t.Error("the pod is stored")
	}
}

// Ten thousand pods stay small.
func TestMemoryOfPods(t *testing.T) {
	const pods = 10_000
	arrived := func(i int) *corev1.Pod {
		wire := pod(fmt.Sprintf("service-%05d-76989858-%05d", i/10, i),
			fmt.Sprintf("node-%03d.europe-west4.example.net", i%500), ip(100, i))
		wire.Namespace, wire.ResourceVersion = "production", fmt.Sprint(300000+i)
		wire.Spec.Containers = []corev1.Container{{Name: "main", Image: strings.Repeat("x", 500)}}
		text, err := wire.Marshal()
		check(t, err)
		out := &corev1.Pod{}
		check(t, out.Unmarshal(text))
		return out
	}
	each := heapOf(func() any {
		c := NewCache(service.NewStore(), Options{ClientPods: true}, quiet())
		for i := range pods {
			c.Set(arrived(i))
		}
		return c
	}) / pods
	t.Logf("%d bytes a pod", each)
	if each > 800 {
		t.Errorf("%d bytes a pod are more than 800", each)
	}
}

func BenchmarkWorkload(b *testing.B) {
	c := NewCache(service.NewStore(), Options{ClientPods: true}, quiet())
	for i := range 10_000 {
		c.Set(pod(fmt.Sprint("p", i), "n1", ip(100, i)))
	}
	at := netip.MustParseAddr(ip(100, 77))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Workload(at)
		}
	})
}
