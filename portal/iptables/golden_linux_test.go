package iptables

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestGolden(t *testing.T) {
	for _, test := range []struct {
		name      string
		addresses []netip.Prefix
		proxy     []netip.Addr
	}{
		{"everywhere", nil, nil},
		{"proxy-addresses", nil, addresses(nodeAddress, "fd00:2::1")},
		{"addresses", []netip.Prefix{
			netip.MustParsePrefix("192.0.2.77/24"), netip.MustParsePrefix("64.0.0.0/2"), netip.MustParsePrefix("127.0.0.0/8"),
			netip.MustParsePrefix("::/0"), netip.MustParsePrefix("::1/128"),
		}, nil},
		{"inside", nil, nil},
		{"ipv4-addresses", []netip.Prefix{netip.MustParsePrefix("192.0.2.77/32")}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			host := newFake()
			o := testOptions(host.run, "")
			if test.name == "inside" {
				o = richOptions(host.run, "")
			}
			o.NodePortAddresses, o.ProxyAddresses = test.addresses, test.proxy
			w := newWriter(t, o)
			w.Guard(goldenPorts())
			if err := w.Replace(t.Context(), goldenPortals()); err != nil {
				t.Fatal(err)
			}
			for _, f := range []family{ipv4(), ipv6()} {
				compareGolden(t, test.name+"."+f.commandName("", "restore"), f, host.scripts(f))
			}
		})
	}
}

func TestRenderGolden(t *testing.T) {
	for what, portals := range spreadCases() {
		t.Run(what, func(t *testing.T) {
			text, err := Render(spreadOptions(nil, ""), portals, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := golden(t, "spread-"+what+".rules", text)
			for f, part := range parts(want) {
				t.Run(f.ip.String(), func(t *testing.T) { accepted(t, *f, []byte(part)) })
			}
		})
	}
}

// scripts returns the input of a family's restore command.
func (f *fake) scripts(of family) []byte {
	var b bytes.Buffer
	for _, ran := range f.ran {
		command, script, _ := bytes.Cut([]byte(ran), []byte("\n"))
		if string(command) == of.commandName("", "restore") {
			b.Write(script)
		}
	}
	return b.Bytes()
}

func compareGolden(t *testing.T, file string, f family, script []byte) {
	t.Helper()
	text := golden(t, file, script)
	t.Run(file, func(t *testing.T) { accepted(t, f, text) })
}

// golden compares with a file, and returns what that has.
func golden(t *testing.T, file string, script []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, script, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), string(script)); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", path, diff)
	}
	return golden
}
