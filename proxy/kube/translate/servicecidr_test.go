package translate

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func rangesObject(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}
}

func TestServiceCIDRs(t *testing.T) {
	cache, _, hook := newCache(t)
	var told []string
	cache.WatchServiceCIDRs(func(all []netip.Prefix) { told = append(told, fmt.Sprint(all)) })
	first := rangesObject("kubernetes", "10.96.0.0/16", "fd00:96::/112")
	for _, step := range []struct {
		what string
		do   func()
		want []string
		logs int
	}{
		{"the cluster's", func() { cache.Set(first) }, []string{"[10.96.0.0/16 fd00:96::/112]"}, 0},
		{"the same", func() { cache.Set(first) }, nil, 0},
		{"one within it", func() { cache.Set(rangesObject("more", "10.96.4.0/24")) }, nil, 0},
		{"one beside it, not masked", func() { cache.Set(rangesObject("more", "10.97.1.2/16")) },
			[]string{"[10.96.0.0/16 10.97.0.0/16 fd00:96::/112]"}, 0},
		{"one that has it too goes", func() {
			cache.Set(rangesObject("twin", "10.96.0.0/16"))
			cache.Delete(Key{KindServiceCIDR, "", "twin"})
		}, nil, 0},
		{"everything, and no range", func() { cache.Set(rangesObject("more", "0.0.0.0/0", "ten")) },
			[]string{"[10.96.0.0/16 fd00:96::/112]"}, 2},
		{"still", func() { cache.Set(rangesObject("more", "ten", "::/0", "0.0.0.0/0")) }, nil, 1},
		{"listed anew", func() {
			cache.Replace(KindServiceCIDR, []Object{Trim(rangesObject("other", "fd00:97::/112"), cache.opts)})
		},
			[]string{"[fd00:97::/112]"}, 0},
		{"none", func() { cache.Replace(KindServiceCIDR, nil) }, []string{"[]"}, 0},
	} {
		told = nil
		hook.Reset()
		step.do()
		if !slices.Equal(told, step.want) || len(hook.AllEntries()) != step.logs {
			t.Errorf("%s: told %v, want %v, %d lines: %v", step.what, told, step.want, step.logs, hook.AllEntries())
		}
	}
	cache.Set(first)
	cache.WatchServiceCIDRs(func(all []netip.Prefix) { told = []string{fmt.Sprint(all)} })
	if want := "[10.96.0.0/16 fd00:96::/112]"; !slices.Equal(told, []string{want}) {
		t.Errorf("one that asks later is told %v, want %v", told, want)
	}
}
