package nftables

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestGolden(t *testing.T) {
	for name, test := range cases() {
		t.Run(name, func(t *testing.T) {
			o, portals := test()
			got, err := Render(o, portals, portaltest.Guarded(true))
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 1))
			random.Shuffle(len(portals), func(i, j int) { portals[i], portals[j] = portals[j], portals[i] })
			if again, _ := Render(o, portals, portaltest.Guarded(true)); !bytes.Equal(got, again) {
				t.Error("another order makes another text")
			}
			path := filepath.Join("testdata", name+".nft")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got; -update writes it anew):\n%s", path, diff)
			}
		})
	}
}

func TestRenderNamesWhatItLeavesOut(t *testing.T) {
	good := redirects()[0]
	bad := good
	bad.Frontend.Addr = netip.AddrPortFrom(good.Frontend.Addr.Addr(), 99)
	bad.Target = portal.Redirect{Port: portaltest.LastPort + 1}
	text, err := Render(testOptions(), []portal.Portal{good, bad}, nil)
	if err == nil || !strings.Contains(err.Error(), "port 30000 is not one of the proxy ports") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(string(text), "10.96.0.1 . tcp . 80 ") || strings.Contains(string(text), "tcp . 99") {
		t.Errorf("rendered\n%s", text)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, test := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.ProxyPorts = inet.PortRange{} }, "proxy ports 0-0"},
		{func(o *Options) { o.ProxyPorts = inet.PortRange{First: 2, Last: 1} }, "proxy ports 2-1"},
		{func(o *Options) { o.ProxyAddresses = []netip.Addr{netip.IPv6Loopback()} }, "proxy address ::1"},
		{func(o *Options) { o.Table = "portald { }" }, `table "portald { }"`},
		{func(o *Options) { o.LocalDetector.Interface = `cni0" accept` }, "interface"},
		{func(o *Options) { o.Masquerade.Mark = 3 }, "mark 0x3"},
		{func(o *Options) { o.ServiceCIDRs = prefixes("0.0.0.0/0") }, "service CIDR 0.0.0.0/0"},
	} {
		o := testOptions()
		test.change(&o)
		if _, err := Render(o, nil, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want an error with %q", err, test.want)
		}
	}
}
