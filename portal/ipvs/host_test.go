package ipvs

import (
	"context"
	"testing"

	"github.com/portald/portald/platform"
)

// conn_reuse_mode is set on the kernels on which kube-proxy sets it, and no other setting depends on the kernel.
func TestConnReuseMode(t *testing.T) {
	for _, c := range []struct {
		kernel platform.KernelVersion
		want   string
	}{
		{platform.KernelVersion{}, ""}, {platform.KernelVersion{3, 10}, ""}, {platform.KernelVersion{4, 0}, ""},
		{platform.KernelVersion{4, 1}, "0"}, {platform.KernelVersion{4, 19}, "0"}, {platform.KernelVersion{5, 8}, "0"},
		{platform.KernelVersion{5, 9}, ""}, {platform.KernelVersion{5, 15}, ""}, {platform.KernelVersion{6, 1}, ""},
	} {
		k := newFake()
		k.version = c.kernel
		w, _ := k.writer(t, Options{})
		if err := w.Replace(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if got := k.sysctls["net/ipv4/vs/conn_reuse_mode"]; got != c.want {
			t.Errorf("Linux %v: conn_reuse_mode is set to %q, want %q", c.kernel, got, c.want)
		}
		if k.sysctls["net/ipv4/vs/conntrack"] != "1" || k.sysctls["net/ipv4/conf/all/arp_ignore"] != "" {
			t.Errorf("Linux %v: %v", c.kernel, k.sysctls)
		}
	}
}
