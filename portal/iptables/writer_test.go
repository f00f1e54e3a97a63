package iptables

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

func TestNewRefuses(t *testing.T) {
	for _, test := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Variant = "nftables" }, `variant "nftables"`},
		{func(o *Options) { o.ProxyPorts = inet.PortRange{} }, "proxy ports 0-0"},
		{func(o *Options) { o.ProxyPorts = inet.PortRange{First: 2, Last: 1} }, "proxy ports 2-1"},
		{func(o *Options) { o.ProxyAddresses = []netip.Addr{netip.IPv6Loopback()} }, "proxy address ::1"},
		{func(o *Options) { o.ProxyAddresses = addresses(nodeAddress, "192.0.2.9") }, "proxy address 192.0.2.9"},
		{func(o *Options) { o.Prefix = "portald" }, `prefix "portald"`},
		{func(o *Options) { o.LocalDetector.Interface = "cni0 -j ACCEPT" }, `interface "cni0 -j ACCEPT"`},
		{func(o *Options) { o.LocalDetector.InterfacePrefix = "fifteen-letters" }, "at most 14"},
		{func(o *Options) { o.LocalDetector.Sources = make([]netip.Prefix, 1) }, "pod addresses invalid"},
		{func(o *Options) { o.Prefix = "PORTALDPORTALD-" }, "at most 14"},
	} {
		o := testOptions(newFake().run, "")
		test.change(&o)
		if _, err := New(t.Context(), o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want an error with %q", err, test.want)
		}
	}
}

func TestHostWithoutIPv6(t *testing.T) {
	host := newFake()
	host.missing = "ip6tables"
	var said []string
	o := testOptions(host.run, "")
	o.Log = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	w := newWriter(t, o)
	for range 2 {
		if err := w.Replace(t.Context(), goldenPortals()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "IPv6") {
		t.Errorf("said %q, want one line about IPv6", said)
	}
	host.missing = "iptables"
	if _, err := New(t.Context(), o); err == nil {
		t.Error("no error without iptables")
	}
}

// A lock that others hold says nothing of what the host can do.
func TestIPv6IsServedOnceTheLockIsFree(t *testing.T) {
	host := newFake()
	host.locked = 2
	if w := newWriter(t, testOptions(host.run, "")); !w.Features().IPv6 {
		t.Error("IPv6 is not served")
	}
}

// Who waits for the lock says so, and ends when it is told to.
func TestWaitForTheLockCanBeEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, said := newFake(), []string(nil)
		o := testOptions(func(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error) {
			if strings.HasPrefix(name, "ip6tables") {
				<-ctx.Done() // as a command that is killed
				return nil, ctx.Err()
			}
			return host.run(ctx, name, args, stdin)
		}, "")
		o.Log = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err := New(ctx, o)
		if took := time.Since(began); !errors.Is(err, writer.ErrBusy) || took != 3*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		synctest.Wait() // it was said by a goroutine of the timer's
		if len(said) != 1 || !strings.HasPrefix(said[0], "waiting for ip6tables") {
			t.Errorf("said %q", said)
		}
	})
}

func TestOnlyReplaceFollowsAnError(t *testing.T) {
	host := newFake()
	w := newWriter(t, testOptions(host.run, ""))
	p := goldenPortals()[1]
	change := []portal.Change{{Frontend: p.Frontend, Portal: &p}}
	if err := w.Update(t.Context(), change); !errors.Is(err, portal.ErrUnknown) {
		t.Errorf("update before Replace: %v", err)
	}
	if err := w.Replace(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	host.fail = errors.New("iptables-restore: line 3 failed")
	err := w.Update(t.Context(), change)
	if err == nil || !strings.Contains(err.Error(), `update IPv4 portals: write table nat: at ":PORTALD-IP-05 - [0:0]"`) {
		t.Errorf("update: %v, want the rule that failed", err)
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

// A frontend leads somewhere at every moment: what is new is put up before what is old goes.
func TestMovingFrontendNeverLeadsNowhere(t *testing.T) {
	p := goldenPortals()[1]
	there, refused, inside := []portal.Portal{p}, []portal.Portal{p}, []portal.Portal{p}
	refused[0].Target = portal.Reject{}
	inside[0].Target = portal.Redirect{Port: 20001, Inside: true}
	rule := fmt.Sprintf("--dport %d ", p.Frontend.Addr.Port())
	for _, test := range []struct {
		name     string
		from, to []portal.Portal
		want     []string // tables in the order in which the rule came or changed (+) and went (-)
	}{
		{"redirect to reject", there, refused, []string{"+filter", "-nat"}},
		{"reject to redirect", refused, there, []string{"+nat", "-filter"}},
		{"redirect to inside", there, inside, []string{"+filter", "+nat"}},
		{"inside to redirect", inside, there, []string{"+nat", "-filter"}},
		{"reject to inside", refused, inside, []string{"+nat", "+filter"}},
		{"inside to reject", inside, refused, []string{"+filter", "-nat"}},
	} {
		for _, method := range []string{"Update", "Replace"} {
			t.Run(test.name+" by "+method, func(t *testing.T) {
				host := newFake()
				w := newWriter(t, testOptions(host.run, ""))
				if err := w.Replace(t.Context(), test.from); err != nil {
					t.Fatal(err)
				}
				host.ran = nil
				err := w.Update(t.Context(), []portal.Change{{Frontend: p.Frontend, Portal: &test.to[0]}})
				if method == "Replace" {
					if err := w.Replace(t.Context(), test.from); err != nil {
						t.Fatal(err)
					}
					host.ran = nil
					err = w.Replace(t.Context(), test.to)
				}
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, script := range host.ran {
					_, table, _ := strings.Cut(script, "*")
					table, _, _ = strings.Cut(table, "\n")
					sign := "-"
					if strings.Contains(script, rule) {
						sign = "+"
					}
					got = append(got, sign+table)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestUnsoundPortalsAreLeftOut(t *testing.T) {
	good := goldenPortals()[1]
	spoil := func(change func(*portal.Portal)) portal.Portal {
		p := good
		p.Frontend = front("10.96.9.9:99", inet.TCP)
		change(&p)
		return p
	}
	bad := map[string]portal.Portal{
		"mapped":      spoil(func(p *portal.Portal) { p.Frontend = front("[::ffff:1.2.3.4]:80", inet.TCP) }),
		"zone":        spoil(func(p *portal.Portal) { p.Frontend = front("[fe80::1%eth0]:80", inet.TCP) }),
		"port 0":      spoil(func(p *portal.Portal) { p.Frontend = front("10.0.0.1:0", inet.TCP) }),
		"no address":  spoil(func(p *portal.Portal) { p.Frontend = service.Frontend{Protocol: inet.TCP} }),
		"unspecified": spoil(func(p *portal.Portal) { p.Frontend = front("0.0.0.0:80", inet.TCP) }),
		"node port":   spoil(func(p *portal.Portal) { p.Kind = service.NodePort }),
		"sctp":        spoil(func(p *portal.Portal) { p.Frontend.Protocol = inet.SCTP }),
		"outside":     spoil(func(p *portal.Portal) { p.Target = portal.Redirect{Port: portaltest.LastPort + 1} }),
		"no target":   spoil(func(p *portal.Portal) { p.Target = nil }),
		"twice":       good,
	}
	for what, p := range bad {
		w := newWriter(t, testOptions(newFake().run, ""))
		err := w.Replace(t.Context(), []portal.Portal{good, p})
		if err == nil || !strings.Contains(err.Error(), p.Owner.String()) {
			t.Errorf("%s: error %v, want one that names the owner", what, err)
		}
		if got := w.hosts[0].nat.tree.portals(); len(got) != 1 || got[0] != good {
			t.Errorf("%s: the rest is not served: %v", what, got)
		}
		if what == "twice" {
			continue
		}
		if err := w.Replace(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := w.Update(t.Context(), []portal.Change{{Frontend: p.Frontend, Portal: &p}}); err == nil {
			t.Errorf("%s: an update takes it", what)
		}
	}
}

// FuzzEquivalence: any sequence of Updates ends in the same host state as one Replace of the last state.
func FuzzEquivalence(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(5))
	f.Add(uint64(7), uint8(40), uint8(1))
	f.Fuzz(func(t *testing.T, seed uint64, steps, size uint8) {
		random, open, checks := rand.New(rand.NewPCG(seed, 0)), map[portal.ProxyPort]bool{}, map[uint16]bool{}
		updated, replaced := newFake(), newFake()
		w := newWriter(t, testOptions(updated.run, ""))
		if err := w.Replace(t.Context(), portaltest.Anchors()); err != nil {
			t.Fatal(err)
		}
		state := portaltest.State{}
		for range steps % 50 {
			w.Guard(portaltest.ChangePorts(random, open, int(size%7)))
			port := 30000 + uint16(random.IntN(40))
			checks[port] = !checks[port]
			w.Open(map[uint16]bool{port: checks[port]})
			if err := w.Update(t.Context(), state.ChangeSpread(random, 1+int(size%20))); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Audit(t.Context()); err != nil {
			t.Error(err)
		}
		fresh := newWriter(t, testOptions(replaced.run, ""))
		fresh.Guard(open)
		fresh.Open(checks)
		if err := fresh.Replace(t.Context(), append(state.Portals(), portaltest.Anchors()...)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(replaced.tables, updated.tables, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("by Updates (-Replace +Updates):\n%s", diff)
		}
		for _, table := range w.hosts[0].tables() {
			if installed := updated.count("iptables " + table.name); table.rules != installed {
				t.Errorf("table %s holds %d rules, the writer counts %d", table.name, installed, table.rules)
			}
		}
	})
}

// A restore that fails is told of, family by family.
func TestFailedIsTold(t *testing.T) {
	var told []string
	o := testOptions(func(_ context.Context, name string, args []string, _ []byte) ([]byte, error) {
		if slices.Contains(args, "--noflush") {
			return nil, errors.New("not today")
		}
		return nil, nil
	}, "")
	o.Failed = func(family inet.Family, partial bool) { told = append(told, fmt.Sprint(family, partial)) }
	w := newWriter(t, o)
	if err := w.Replace(t.Context(), nil); err == nil {
		t.Error("no error")
	}
	if fmt.Sprint(told) != "[IPv4 false IPv6 false]" {
		t.Errorf("told %v", told)
	}
}
