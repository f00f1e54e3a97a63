package nftables

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

func newWriter(t testing.TB, o Options) *Writer {
	t.Helper()
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// needNFT is for tests that have nft load or list rules.
func needNFT(t testing.TB) {
	if _, err := exec.LookPath("nft"); err != nil {
		netnstest.Missing(t, "needs nft (Debian package nftables)")
	}
}

func runNFT(ctx context.Context, input string, args ...string) (string, error) {
	out, err := platform.Run(ctx, "nft", args, []byte(input))
	return string(out), err
}

// accepted has nft load a text. That is one message, for which others than root have no buffers of that size.
func accepted(t *testing.T, input string, args ...string) {
	t.Helper()
	_, err := runNFT(t.Context(), input, args...)
	if err != nil && strings.Contains(err.Error(), "Message too long") {
		netnstest.Missing(t, "needs root, or larger buffers of sockets: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// kernel is the one of this network namespace.
type kernel struct{ table string }

// Dump sorts the parts of each table, which the kernel lists in the order of their creation. Each element is there once
// and on a line of its own: nft prints one twice if its hash table grows meanwhile.
func (k kernel) Dump(ctx context.Context) (string, error) {
	text, err := runNFT(ctx, "", "list", "ruleset")
	lines := strings.Split(regexp.MustCompile(`,\s+`).ReplaceAllString(text, ",\n"), "\n")
	twice := func(a, b string) bool { return a == b && strings.HasSuffix(a, ",") }
	text = strings.Join(slices.CompactFunc(lines, twice), "\n")
	var tables []string
	for table := range strings.SplitSeq(text, "\n}\n") {
		head, body, _ := strings.Cut(table, "\n")
		parts := strings.Split(body, "\n\n")
		slices.Sort(parts)
		tables = append(tables, head+"\n"+strings.Join(parts, "\n\n"))
	}
	slices.Sort(tables)
	return strings.Join(tables, "\n}\n"), err
}

func (k kernel) AddForeign(ctx context.Context) error {
	_, err := runNFT(ctx, `table ip others {
	chain services { counter
	}
	chain output { type nat hook output priority -100; ip daddr 192.0.2.250 jump services
	}
}
table inet `+k.table+` {
	map service-ips { type ipv4_addr : verdict; }
	chain services { drop
	}
}
`, "-f", "-")
	return err
}

func (k kernel) Damage(ctx context.Context, f service.Frontend) error {
	fam := nft.IPv4()
	if f.Addr.Addr().Is6() {
		fam = nft.IPv6()
	}
	maps := layout.NewSets(fam).Ips
	e := nft.Element{Destination: f.Addr.Addr(), Protocol: f.Protocol, Port: f.Addr.Port()}
	if f.Addr.Addr().IsUnspecified() {
		maps = layout.NewSets(fam).NodePorts
	}
	for _, s := range []*nft.Set{maps.Redirects, maps.Chains, maps.Plain, maps.Refused, maps.Dropped} {
		_, err := runNFT(ctx, "", "delete", "element", fam.Word, k.table, s.Name, "{", s.Key.Values(e), "}")
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("no element has %s", f)
}

func (k kernel) Unhook(ctx context.Context) error {
	flush := fmt.Sprintf("flush chain ip %s nat-prerouting\nflush chain ip6 %[1]s nat-output\n", k.table)
	_, err := runNFT(ctx, flush, "-f", "-")
	return err
}

// generation counts the transactions of this network namespace.
func generation() (int, error) {
	conn, err := nfnl.Dial()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	id, err := conn.Generation()
	return int(id), err
}

func TestKernel(t *testing.T) {
	needNFT(t)
	small := func(w *Writer) { w.tables[0].kernel.conn.MaxBatch = 8 << 10 } // as where the host allows only small buffers
	for _, test := range []struct {
		name    string
		options Options
		spread  bool
		prepare func(*Writer)
	}{
		{"Plain", testOptions(), false, nil},
		{"Spread", testOptions(), true, nil},
		{"Rich", richOptions(), true, nil},
		{"SmallBatches", richOptions(), true, small},
	} {
		t.Run(test.name, func(t *testing.T) {
			portaltest.Run(t, test.spread, func(t *testing.T) portaltest.Subject {
				netnstest.Enter(t)
				open := func() (portal.Writer, error) {
					w, err := New(test.options)
					if err == nil && test.prepare != nil {
						test.prepare(w)
					}
					return w, err
				}
				return portaltest.Subject{Host: kernel{DefaultTable}, NewWriter: open, Written: generation}
			})
		})
	}
}

func TestTraffic(t *testing.T) {
	portaltest.Traffic(t, func(inside portal.LocalDetector) (portal.Writer, error) {
		o := testOptions()
		o.LocalDetector, o.Dials = inside, portal.DefaultDials
		return New(o)
	})
}

func TestSpreading(t *testing.T) {
	portaltest.Spreading(t, func(s portaltest.Settings) (portal.Writer, error) {
		o := testOptions()
		o.LocalDetector, o.NodePortAddresses = s.LocalDetector, s.NodePortAddresses
		o.Masquerade, o.Dials = s.Masquerade, s.Dials
		return New(o)
	}, portaltest.LeastConnections)
}

// The kernel has the same rules from nft, which loads the text, as from the Writer, by netlink.
func TestTextAndNetlinkAgree(t *testing.T) {
	needNFT(t)
	for name, test := range cases() {
		t.Run(name, func(t *testing.T) {
			o, portals := test()
			for _, more := range [][]portal.Portal{nil, portaltest.SpreadPortals(rand.New(rand.NewPCG(1, 2)), 200)} {
				portals = append(portals, more...)
				text, err := Render(o, portals, portaltest.Guarded(true))
				if err != nil {
					t.Fatal(err)
				}
				netnstest.Enter(t)
				for range 2 { // the second replaces the first
					accepted(t, string(text), "-f", "-")
				}
				want, err := kernel{}.Dump(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				netnstest.Enter(t)
				w := newWriter(t, o)
				w.Guard(portaltest.Guarded(true))
				if err := w.Replace(t.Context(), portals); err != nil {
					t.Fatal(err)
				}
				if err := w.Audit(t.Context()); err != nil {
					t.Error(err)
				}
				got, err := kernel{}.Dump(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-text +netlink):\n%s", diff)
				}
			}
		})
	}
}

func TestGoldensAreAccepted(t *testing.T) {
	needNFT(t)
	netnstest.Enter(t)
	files, err := filepath.Glob("testdata/*.nft")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens", err)
	}
	for _, file := range files {
		accepted(t, "", "--check", "-f", file)
	}
}

func TestOnlyReplaceFollowsAnError(t *testing.T) {
	netnstest.Enter(t)
	w := newWriter(t, testOptions())
	p := redirects()[0]
	change := []portal.Change{{Frontend: p.Frontend, Portal: &p}}
	if err := w.Update(t.Context(), change); !errors.Is(err, portal.ErrUnknown) {
		t.Errorf("update before Replace: %v", err)
	}
	if err := w.Replace(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := newWriter(t, testOptions()).Cleanup(t.Context()); err != nil { // another Writer's
		t.Fatal(err)
	}
	if err := w.Update(t.Context(), change); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("update of no table: %v", err)
	}
	if err := w.Update(t.Context(), change); !errors.Is(err, portal.ErrUnknown) {
		t.Errorf("update after an error: %v", err)
	}
	if err := w.Audit(t.Context()); !errors.Is(err, portal.ErrUnknown) {
		t.Errorf("audit after an error: %v", err)
	}
	if err := w.Replace(t.Context(), []portal.Portal{p}); err != nil {
		t.Error(err)
	}
	if err := w.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}
