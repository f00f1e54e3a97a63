package writers

import (
	"fmt"
	"testing"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/service"
)

// A portald for a proxy name leaves the rules of the one without alone, and its own stay before those of others.
func TestTraces(t *testing.T) {
	plain := NamesOf(&config.Config{})
	if plain.Chains != ownChains || plain.Table != ownTable || plain.Divert != platform.DefaultDivert() {
		t.Errorf("without a name: %+v", plain)
	}
	for i := range 1000 {
		named := NamesOf(&config.Config{ServiceProxyName: fmt.Sprint("proxy-", i), Mode: service.ModeKernel})
		first, last := named.Divert.Priority, named.Divert.Priority+platform.DivertRules-1
		if named.Chains == plain.Chains || named.Table == plain.Table || named.Divert.Table == plain.Divert.Table ||
			first < plain.Divert.Priority+platform.DivertRules || last >= 512 {
			t.Fatalf("%d: %+v beside %+v", i, named, plain)
		}
	}
}

// The one service proxy of a cluster uses the names that operators know, in modes that kube-proxy has.
func TestKubeNames(t *testing.T) {
	for _, c := range []struct {
		cfg  config.Config
		kube bool
	}{
		{config.Config{Mode: service.ModeKernel}, true},
		{config.Config{Mode: service.ModeUserspace}, false},
		{config.Config{Mode: service.ModeKernel, Manifests: []string{"-"}}, false},
		{config.Config{Mode: service.ModeKernel, ServiceProxyName: "other"}, false},
	} {
		if got := NamesOf(&c.cfg); (got.Chains == kubeChains) != c.kube || (got.Table == kubeTable) != c.kube {
			t.Errorf("%+v: %+v", c.cfg, got)
		}
	}
}
