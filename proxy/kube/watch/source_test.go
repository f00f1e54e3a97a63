package watch

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/portald/portald/proxy/kube/objecttest"
	"github.com/portald/portald/proxy/kube/translate"
)

const (
	cartFront = "shop/cart/tcp\n  ClusterIP 10.96.0.7:80/tcp\n"
	cartNine  = "  -> 10.244.9.9:80 ready serving not-hinted\n"
)

func TestWatchFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, slice := cartAt(t, "10.244.0.1")
		s := newAPIServer(t, translate.Options{NodeName: "n1"}, svc, slice, objecttest.Node("z1"))
		s.refuseWith(func(_, resource, _ string) error {
			if resource == "endpointslices" {
				return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("in a moment"))
			}
			return nil
		})
		w := s.start()
		time.Sleep(10 * time.Second)
		if s.store.Pending() > 0 {
			t.Error("a Service is served without its slices")
		}
		s.refuseWith(nil)
		<-w.Synced()
		s.serves("at first", cartFront+"  -> 10.244.0.1:80 ready serving\n"+cartNine)

		_, slice = cartAt(t, "10.244.0.2")
		s.update(slice)
		s.serves("a changed slice", cartFront+"  -> 10.244.0.2:80 ready serving\n"+cartNine)
		s.update(objecttest.Node("z2"))
		s.serves("another zone", cartFront+"  -> 10.244.0.2:80 ready serving not-hinted\n  -> 10.244.9.9:80 ready serving\n")
		s.update(objecttest.Node("z1"))

		other := svc.DeepCopy()
		other.Name, other.Spec.ClusterIP = "other", "10.96.0.8"
		_, err := s.CoreV1().Services("shop").Create(t.Context(), other, metav1.CreateOptions{})
		check(t, err)
		moved := slice.DeepCopy()
		moved.Labels[discoveryv1.LabelServiceName] = "other"
		s.update(moved)
		s.serves("a slice that moved", cartFront+"shop/other/tcp\n  ClusterIP 10.96.0.8:80/tcp\n  -> 10.244.0.2:80 "+
			"ready serving\n"+cartNine)
		check(t, s.CoreV1().Services("shop").Delete(t.Context(), "other", metav1.DeleteOptions{}))
		s.serves("a Service that is gone", cartFront)

		theirs := svc.DeepCopy()
		theirs.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
		s.update(theirs)
		s.serves("another proxy's", "")
		s.update(svc)
		s.serves("ours again", cartFront)

		check(t, s.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}))
		s.serves("without a Node", cartFront)
		want := []string{
			"info: Watching API server https://api:6443",
			"info: API server https://api:6443: 1 Services and 1 EndpointSlices listed",
			"warning: Node n1: its Node object was removed; this node serves Services as before",
		}
		if diff := cmp.Diff(want, s.said()); diff != "" {
			t.Errorf("said (-want +got)\n%s", diff)
		}
	})
}

// While the server was away its objects changed, and its history is gone: what is missing afterwards is gone.
func TestRelistLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, slice := cartAt(t, "10.244.0.1")
		gone := svc.DeepCopy()
		gone.Name, gone.Spec.ClusterIP = "gone", "10.96.0.8"
		s := newAPIServer(t, translate.Options{NodeName: "n1"}, svc, slice, gone, objecttest.Node("z1"))
		<-s.start().Synced()
		synctest.Wait()
		s.said()
		s.refuseWith(away)
		synctest.Wait()
		check(t, s.CoreV1().Services("shop").Delete(t.Context(), "gone", metav1.DeleteOptions{}))
		check(t, s.DiscoveryV1().EndpointSlices("shop").Delete(t.Context(), "cart-x", metav1.DeleteOptions{}))
		check(t, s.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}))
		fresh := svc.DeepCopy()
		fresh.Name, fresh.Spec.ClusterIP = "new", "10.96.0.9"
		_, err := s.CoreV1().Services("shop").Create(t.Context(), fresh, metav1.CreateOptions{})
		check(t, err)
		time.Sleep(10 * time.Minute)
		s.serves("while it is away", cartFront+"  -> 10.244.0.1:80 ready serving\n"+cartNine+"shop/gone/tcp\n  "+
			"ClusterIP 10.96.0.8:80/tcp\n")

		expired := map[string]bool{}
		s.refuseWith(func(verb, resource, _ string) error {
			if verb == "watch" && !expired[resource] {
				expired[resource] = true
				return apierrors.NewResourceExpired("too old resource version")
			}
			return nil
		})
		time.Sleep(2 * time.Minute)
		s.serves("when it is back", cartFront+"shop/new/tcp\n  ClusterIP 10.96.0.9:80/tcp\n")
		if len(expired) != 3 {
			t.Error("not all was listed anew:", expired)
		}
		want := []string{ // in any order
			"info: API server https://api:6443 answers again",
			"warning: API server https://api:6443 does not answer: dial tcp: connection refused. Services are served as " +
				"they are until it does",
			"warning: Node n1: its Node object was removed; this node serves Services as before",
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(s.said()))); diff != "" {
			t.Errorf("said (-want +got)\n%s", diff)
		}
		s.reports("false API server https://api:6443 does not answer: dial tcp: connection refused",
			"true API server https://api:6443 answers again")
		if _, known := s.cache.Node(); known {
			t.Error("kept a Node that is gone")
		}
	})
}

func TestStartWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, slice := cartAt(t, "10.244.0.1")
		s := newAPIServer(t, translate.Options{NodeName: "n1"}, svc, slice)
		s.refuseWith(away)
		w := s.start()
		time.Sleep(10*time.Minute + time.Second)
		waits := s.said()[1:]
		if n := len(waits); n < 5 || n > 11 {
			t.Errorf("said %d times in ten minutes: %v", n, waits)
		}
		for _, line := range waits {
			if line != "warning: API server https://api:6443 does not answer: dial tcp: connection refused. Waiting for it" {
				t.Error("said:", line)
			}
		}
		s.refuseWith(nil)
		began := time.Now()
		<-w.Synced()
		if took := time.Since(began); took > 2*lastBackoff {
			t.Errorf("noticed after %v that it is there", took)
		}
		s.serves("when it is there", cartFront+"  -> 10.244.0.1:80 ready serving\n  -> 10.244.9.9:80 ready serving\n")
		if said := fmt.Sprint(s.said()); !strings.Contains(said, "answers again") ||
			!strings.Contains(said, "1 Services and 1 EndpointSlices listed") {
			t.Error("said:", said)
		}
		s.reports("false API server https://api:6443 does not answer: dial tcp: connection refused", // once in ten minutes
			"true API server https://api:6443 answers again")
	})
}

// A server that just started refuses what it allows a moment later; one that goes on lacks a rule.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, slice := cartAt(t, "10.244.0.1")
		s := newAPIServer(t, translate.Options{NodeName: "n1"}, svc, slice)
		forbid := func(verbs ...string) {
			s.refuseWith(func(verb, resource, _ string) error {
				for _, v := range verbs {
					if v == verb && resource == "endpointslices" {
						return apierrors.NewForbidden(schema.GroupResource{Group: "discovery.k8s.io", Resource: resource}, "",
							errors.New("no rule"))
					}
				}
				return nil
			})
		}
		forbid("list", "watch")
		w := s.start()
		time.Sleep(10 * time.Second)
		forbid()
		<-w.Synced()
		synctest.Wait() // it says so after that
		if said := fmt.Sprint(s.said()); strings.Contains(said, "refuses") || strings.Contains(said, "error") {
			t.Error("said of a moment:", said)
		}
		forbid("watch")
		time.Sleep(30 * time.Minute)
		said := s.said()
		if len(said) != 1 || !strings.HasPrefix(said[0],
			"error: API server https://api:6443 refuses to watch endpointslices.discovery.k8s.io: ") ||
			!strings.HasSuffix(said[0], "; let a ClusterRole grant this account the verb watch on "+
				"endpointslices.discovery.k8s.io") {
			t.Errorf("said %q", said)
		}
		s.reports("false API server https://api:6443 refuses to watch endpointslices.discovery.k8s.io: " +
			`endpointslices.discovery.k8s.io is forbidden: no rule`)
		forbid()
		time.Sleep(2 * time.Minute)
		if said := s.said(); len(said) != 1 || !strings.Contains(said[0], "answers again") {
			t.Errorf("said %q", said)
		}
	})
}

func TestSelectors(t *testing.T) {
	for _, c := range []struct {
		proxyName string
		old       bool // the server cannot select by ClusterIP
		want      string
	}{
		{"", false, "services !service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name " +
			"spec.clusterIP!=None"},
		{"ours", false, "services !service.kubernetes.io/headless,service.kubernetes.io/service-proxy-name=ours " +
			"spec.clusterIP!=None"},
		{"", true, "services !service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name "},
	} {
		t.Run(c.want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer(t, translate.Options{NodeName: "n1", ServiceProxyName: c.proxyName})
				s.refuseWith(func(_, _, fields string) error {
					if c.old && strings.Contains(fields, "clusterIP") {
						return apierrors.NewBadRequest("field label not supported: spec.clusterIP")
					}
					return nil
				})
				<-s.start().Synced()
				synctest.Wait()
				asked := map[string]string{}
				for _, a := range s.Actions() {
					if w, ok := a.(clienttesting.WatchAction); ok {
						asked[a.GetResource().Resource] = fmt.Sprintf("%s %s %s", a.GetResource().Resource,
							w.GetWatchRestrictions().Labels, w.GetWatchRestrictions().Fields)
					}
				}
				want := map[string]string{
					"services": c.want, "endpointslices": "endpointslices !service.kubernetes.io/headless ",
					"nodes": "nodes  metadata.name=n1",
				}
				if diff := cmp.Diff(want, asked); diff != "" {
					t.Errorf("asked (-want +got)\n%s", diff)
				}
				if said := fmt.Sprint(s.said()); strings.Contains(said, "warn") {
					t.Error("said:", said)
				}
			})
		})
	}
}

// Pods are watched where clients are to be named, and Services are served where that is refused.
func TestWatchPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "3"},
			Spec:       corev1.PodSpec{NodeName: "n2"},
			Status:     corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.244.2.1"}}},
		}
		svc, slice := cartAt(t, "10.244.0.1")
		s := newAPIServer(t, translate.Options{NodeName: "n1", ClientPods: true}, svc, slice, objecttest.Node("z1"), pod)
		s.refuseWith(func(_, resource, _ string) error {
			if resource == "pods" {
				return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no such right"))
			}
			return nil
		})
		w := s.start()
		<-w.Synced()
		s.serves("without pods", cartFront+"  -> 10.244.0.1:80 ready serving\n"+cartNine)
		at := netip.MustParseAddr("10.244.2.1")
		if _, known := s.cache.Workload(at); known {
			t.Error("a pod is known though pods are refused")
		}
		time.Sleep(time.Minute)
		if said := strings.Join(s.said(), "\n"); !strings.Contains(said, "Pod") {
			t.Errorf("the refusal is not logged: %s", said)
		}
		s.refuseWith(nil)
		time.Sleep(time.Minute)
		if who, _ := s.cache.Workload(at); who.Pod != "shop/web" || who.Node != "n2" {
			t.Errorf("%+v", who)
		}
		check(t, s.CoreV1().Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		synctest.Wait()
		if _, known := s.cache.Workload(at); known {
			t.Error("a deleted pod is known")
		}
	})
}
