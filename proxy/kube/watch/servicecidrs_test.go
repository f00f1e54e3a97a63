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

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/portald/portald/proxy/kube/objecttest"
	"github.com/portald/portald/proxy/kube/translate"
)

func serviceCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}
}

// refusing answers requests for ServiceCIDRs by an error.
func refusing(err error) func(verb, resource, fields string) error {
	return func(_, resource, _ string) error {
		if resource == "servicecidrs" {
			return err
		}
		return nil
	}
}

var (
	gone      = apierrors.NewNotFound(schema.GroupResource{Resource: "servicecidrs"}, "")
	forbidden = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
)

// ranged starts a source that watches ServiceCIDRs of a server with one, and follows them.
func ranged(t *testing.T, refuse error) (s *apiServer, w *Source, ranges *string) {
	ranges = new(string)
	s = newAPIServer(t, translate.Options{NodeName: "n1", ServiceCIDRs: true}, serviceCIDR("kubernetes", "10.96.0.0/16"),
		objecttest.Node("z1"))
	s.cache.WatchServiceCIDRs(func(all []netip.Prefix) { *ranges = fmt.Sprint(all) })
	s.refuseWith(refusing(refuse))
	return s, s.start(), ranges
}

func TestServiceCIDRs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, ranges := ranged(t, nil)
		<-w.Synced()
		synctest.Wait() // until it watches: the fake server forgets what comes before
		if *ranges != "[10.96.0.0/16]" {
			t.Errorf("with the first state: %s", *ranges)
		}
		_, err := s.NetworkingV1().ServiceCIDRs().Create(t.Context(), serviceCIDR("more", "fd00:96::/112"),
			metav1.CreateOptions{})
		check(t, err)
		synctest.Wait()
		if *ranges != "[10.96.0.0/16 fd00:96::/112]" {
			t.Errorf("one more: %s", *ranges)
		}
		check(t, s.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "kubernetes", metav1.DeleteOptions{}))
		synctest.Wait()
		if *ranges != "[fd00:96::/112]" {
			t.Errorf("one less: %s", *ranges)
		}
	})
}

// A server that has no ServiceCIDRs delays nothing, and is asked seldom; after an upgrade it has some.
func TestNoServiceCIDRs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s, w, ranges := ranged(t, gone)
		<-w.Synced()
		if took := time.Since(began); took > 0 {
			t.Errorf("the first state took %v", took)
		}
		s.ClearActions()
		time.Sleep(time.Hour)
		probes := 0
		for _, a := range s.Actions() {
			if a.GetResource().Resource == "servicecidrs" {
				probes++
			}
		}
		if probes > 40 {
			t.Errorf("asked %d times in an hour", probes)
		}
		said := s.said()
		has := func(line string) bool { return strings.Contains(line, "ServiceCIDR") }
		if lines := slices.DeleteFunc(said, func(l string) bool { return !has(l) }); len(lines) != 1 ||
			!strings.HasPrefix(lines[0], "info: API server https://api:6443 has no ServiceCIDRs") {
			t.Errorf("said %q", lines)
		}
		s.refuseWith(nil)
		time.Sleep(2 * rangesRetry)
		synctest.Wait()
		if *ranges != "[10.96.0.0/16]" {
			t.Errorf("after the upgrade: %q", *ranges)
		}
		s.refuseWith(refusing(gone)) // and back
		s.said()
		time.Sleep(time.Hour)
		synctest.Wait()
		if lines := s.said(); len(lines) > 0 || *ranges != "[10.96.0.0/16]" {
			t.Errorf("after the downgrade: %q, ranges %s", lines, *ranges)
		}
	})
}

// A role that does not grant ServiceCIDRs holds nothing up, and the log says what to grant.
func TestServiceCIDRsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s, w, ranges := ranged(t, forbidden)
		<-w.Synced()
		if took := time.Since(began); took > rangesGrace {
			t.Errorf("the first state took %v", took)
		}
		time.Sleep(2 * time.Minute)
		const want = "let a ClusterRole grant this account the verb list on servicecidrs.networking.k8s.io"
		if said := s.said(); !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("said %q", said)
		}
		s.refuseWith(nil)
		time.Sleep(2 * lastBackoff)
		synctest.Wait()
		if *ranges != "[10.96.0.0/16]" {
			t.Errorf("once it is granted: %q", *ranges)
		}
	})
}
