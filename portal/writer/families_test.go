package writer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// host notes the calls of its families.
type host struct {
	calls []string
	fails string // calls that fail, by their beginning
}

func (h *host) call(ip inet.Family, what string, n int) error {
	h.calls = append(h.calls, fmt.Sprintf("%s %s %d", ip, what, n))
	if h.fails != "" && strings.HasPrefix(h.calls[len(h.calls)-1], h.fails) {
		return errors.New("refused")
	}
	return nil
}

func (h *host) family(ip inet.Family) (Family, error) {
	return Family{
		IP:    ip,
		Guard: func(ports map[portal.ProxyPort]bool) { h.call(ip, "guard", len(ports)) },
		Replace: func(_ context.Context, s Settings, p []portal.Portal) error {
			return h.call(ip, fmt.Sprintf("replace mark %d", s.Mark), len(p))
		},
		Adopt: func(_ context.Context, s Settings, p []portal.Portal) error {
			return h.call(ip, fmt.Sprintf("adopt mark %d", s.Mark), len(p))
		},
		Forget:  func() { h.call(ip, "forget", 0) },
		Update:  func(_ context.Context, c []portal.Change) error { return h.call(ip, "update", len(c)) },
		Audit:   func(context.Context) error { return h.call(ip, "audit", 0) },
		Remove:  func(context.Context) error { return h.call(ip, "remove", 0) },
		Diverts: func() bool { return ip == inet.IPv6 },
	}, nil
}

func options(t *testing.T) Options {
	t.Helper()
	o := Options{ProxyPorts: inet.PortRange{First: 20000, Last: 20009}}
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	return o
}

func open(t *testing.T, h *host, o Options) *Families {
	t.Helper()
	w, err := Open(o, h.family)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func redirect(addr string, port uint16) portal.Portal {
	f := service.Frontend{Addr: netip.MustParseAddrPort(addr), Protocol: inet.TCP}
	return portal.Portal{Frontend: f, Target: portal.Redirect{Port: port}}
}

func TestFamiliesAreGivenWhatIsValid(t *testing.T) {
	h := &host{}
	w := open(t, h, options(t))
	w.SetMark(7)
	err := w.Replace(t.Context(), []portal.Portal{redirect("10.96.0.1:80", 20000), redirect("10.96.0.2:80", 80)})
	if err == nil || !strings.Contains(err.Error(), "10.96.0.2:80") {
		t.Errorf("a portal outside the proxy ports: %v", err)
	}
	if want := []string{"IPv4 replace mark 7 1", "IPv6 replace mark 7 1"}; !slices.Equal(h.calls, want) {
		t.Errorf("calls %q, want %q", h.calls, want)
	}
	if !w.Features().IPv6 || w.Diverts(inet.IPv4) || !w.Diverts(inet.IPv6) {
		t.Errorf("IPv6 %t, diverts %t, %t", w.Features().IPv6, w.Diverts(inet.IPv4), w.Diverts(inet.IPv6))
	}
}

// An update or audit needs a successful Replace before, and after an error of an update another one.
func TestFamiliesKnowTheHost(t *testing.T) {
	h := &host{}
	var failed []string
	o := options(t)
	o.Failed = func(ip inet.Family, partial bool) { failed = append(failed, fmt.Sprint(ip, partial)) }
	w := open(t, h, o)
	for _, err := range []error{w.Update(t.Context(), nil), w.Audit(t.Context())} {
		if !errors.Is(err, portal.ErrUnknown) {
			t.Errorf("before Replace: %v", err)
		}
	}
	if err := errors.Join(w.Replace(t.Context(), nil), w.Update(t.Context(), nil), w.Audit(t.Context())); err != nil {
		t.Fatal(err)
	}
	h.calls, h.fails = nil, "IPv4 update"
	if err := w.Update(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "update IPv4 portals: refused") {
		t.Errorf("an update that fails: %v", err)
	}
	if want := []string{"IPv4 update 0", "IPv6 update 0"}; !slices.Equal(h.calls, want) {
		t.Errorf("calls %q, want %q", h.calls, want)
	}
	if !slices.Equal(failed, []string{"IPv4 true"}) {
		t.Errorf("failed %q", failed)
	}
	if err := w.Audit(t.Context()); !errors.Is(err, portal.ErrUnknown) {
		t.Errorf("an audit after an error: %v", err)
	}
	if err := errors.Join(w.Replace(t.Context(), nil), w.Cleanup(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := w.Update(t.Context(), nil); !errors.Is(err, portal.ErrUnknown) {
		t.Errorf("an update after Cleanup: %v", err)
	}
}

// After both families have adopted, the host is known as after a Replace; if one cannot, both forget.
func TestFamiliesAdopt(t *testing.T) {
	h := &host{fails: "IPv6 adopt"}
	w := open(t, h, options(t))
	w.SetMark(7)
	portals := []portal.Portal{redirect("10.96.0.1:80", 20000)}
	if err := w.Adopt(t.Context(), portals); err == nil || err.Error() != "adopt IPv6 portals: refused" {
		t.Errorf("one family cannot: %v", err)
	}
	want := []string{"IPv4 adopt mark 7 1", "IPv6 adopt mark 7 1", "IPv4 forget 0", "IPv6 forget 0"}
	if !slices.Equal(h.calls, want) {
		t.Errorf("calls %q, want %q", h.calls, want)
	}
	for _, err := range []error{w.Update(t.Context(), nil), w.Audit(t.Context())} {
		if !errors.Is(err, portal.ErrUnknown) {
			t.Errorf("after an Adopt that failed: %v", err)
		}
	}
	h.calls, h.fails = nil, ""
	if err := w.Adopt(t.Context(), append(portals, redirect("10.96.0.2:80", 80))); err == nil || slices.Contains(h.calls,
		want[0]) {
		t.Errorf("with a portal that no rule can express: %v", err)
	}
	err := errors.Join(w.Adopt(t.Context(), portals), w.Update(t.Context(), nil), w.Audit(t.Context()))
	if err != nil {
		t.Error(err)
	}
}

// watch is a host that is in a state.
type watch struct{ state, seen uint32 }

func (w *watch) Watch() error                     { w.seen = w.state; return nil }
func (w *watch) Unchanged() (uint32, bool, error) { return w.state, w.state == w.seen, nil }
func (w *watch) Verified(id uint32)               { w.seen = id }
func (w *watch) Disturbed() bool                  { return w.state != w.seen }

func TestAuditOfAnUnchangedHostDoesNotLook(t *testing.T) {
	h, watched := &host{}, &watch{state: 1}
	w := open(t, h, options(t))
	w.Observe(watched, nil)
	audits := func(want int) {
		t.Helper()
		h.calls = nil
		if err := w.Audit(t.Context()); err != nil && h.fails == "" {
			t.Error(err)
		}
		if len(h.calls) != want {
			t.Errorf("calls %q, want %d", h.calls, want)
		}
	}
	if err := w.Replace(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	audits(0)
	watched.state++
	h.fails = "IPv6 audit"
	audits(2)
	h.fails = ""
	audits(2)
	audits(0)
}

func TestOpenWithoutIPv6(t *testing.T) {
	logged := 0
	o := options(t)
	o.Log = func(string, ...any) { logged++ }
	for ip, served := range map[inet.Family]bool{inet.IPv4: false, inet.IPv6: true} {
		h := &host{}
		w, err := Open(o, func(f inet.Family) (Family, error) {
			if f == ip {
				return Family{}, errors.New("not here")
			}
			return h.family(f)
		})
		if (err == nil) != served || served && w.Features().IPv6 {
			t.Errorf("without %s: %v", ip, err)
		}
	}
	if logged != 1 {
		t.Errorf("logged %d times, want once", logged)
	}
	_, err := Open(o, func(f inet.Family) (Family, error) {
		if f == inet.IPv6 {
			return Family{}, fmt.Errorf("look: %w", ErrBusy)
		}
		return (&host{}).family(f)
	})
	if !errors.Is(err, ErrBusy) {
		t.Errorf("a host that does not tell whether it has IPv6: %v", err)
	}
}

func TestOptionsAreRefused(t *testing.T) {
	for want, edit := range map[string]func(*Options){
		"proxy ports 0-0":       func(o *Options) { o.ProxyPorts = inet.PortRange{} },
		"proxy ports 2-1":       func(o *Options) { o.ProxyPorts = inet.PortRange{First: 2, Last: 1} },
		"proxy address ::1":     func(o *Options) { o.ProxyAddresses = []netip.Addr{netip.IPv6Loopback()} },
		"mark 0x3":              func(o *Options) { o.Masquerade.Mark = 3 },
		"mark 0x4001":           func(o *Options) { o.Mark = 0x4001 },
		"that of other packets": func(o *Options) { o.Dials = 0x4000 },
		"pod addresses":         func(o *Options) { o.LocalDetector.Sources = make([]netip.Prefix, 1) },
	} {
		o := Options{ProxyPorts: inet.PortRange{First: 20000, Last: 20009}}
		edit(&o)
		if err := o.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
