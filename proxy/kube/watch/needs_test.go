package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/translate"
)

// Pods are asked for at once, by one event of all nodes a minute for each Service.
func TestNeedPods(t *testing.T) { synctest.Test(t, testNeedPods) }

func testNeedPods(t *testing.T) {
	s := newAPIServer(t, translate.Options{NodeName: "n1"})
	one, two := s.recording(), s.recording()
	cart, other := service.Name{Namespace: "shop", Name: "cart"}, service.Name{Namespace: "shop", Name: "other"}
	time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
	for range 3 {
		one.NeedPods(cart, "needs")
		two.NeedPods(cart, "needs")
		one.NeedPods(other, "needs")
	}
	time.Sleep(time.Second)
	const by = " uid= version= field=: NeedPods Hold by portald at n1: needs"
	first := []string{"Normal Service shop/cart" + by, "Normal Service shop/other" + by}
	if diff := cmp.Diff(first, s.events()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	time.Sleep(time.Minute)
	two.NeedPods(cart, "needs")
	time.Sleep(time.Second)
	if diff := cmp.Diff([]string{first[0], first[0], first[1]}, s.events()); diff != "" {
		t.Errorf("a minute later (-want +got)\n%s", diff)
	}
	var none *Recorder
	none.NeedPods(cart, "needs")
	none.Scaled(cart, "scaled")
	none.NotScaled(cart, "why")
}
