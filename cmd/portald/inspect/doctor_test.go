package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/portald/portald/platform/doctor"
	"github.com/portald/portald/proxy/adminsocket"
)

// Warnings are no error of the command, errors are; both formats are whole.
func TestReportOfDoctor(t *testing.T) {
	r := &doctor.Report{System: "linux",
		Findings: []doctor.Finding{{Check: "clock", Severity: doctor.Warning, Seen: "off"}}}
	var out bytes.Buffer
	check(t, printReport(&out, r, outputJSON, doctor.Style{}))
	var got doctor.Report
	check(t, json.Unmarshal(out.Bytes(), &got))
	if d := cmp.Diff(*r, got, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	r.Findings[0].Severity = doctor.Error
	out.Reset()
	if err := printReport(&out, r, outputText, doctor.Style{ASCII: true}); err == nil ||
		!bytes.HasPrefix(out.Bytes(), []byte("XX clock: off\n")) {
		t.Errorf("%v, %q", err, &out)
	}
}

// The doctor uses what the daemon serves.
func TestServiceForDoctor(t *testing.T) {
	at := netip.MustParseAddrPort("10.96.0.10:80")
	got := serviceForDoctor(adminsocket.Service{Name: "shop/cart:http", Protocol: "tcp", Mode: "kernel", Problem: "p",
		Frontends: []adminsocket.Frontend{{Address: at, Kind: "ClusterIP", Port: 11000, Holder: "shop/old"}}})
	want := doctor.Service{Name: "shop/cart:http", Protocol: "tcp", Kernel: true, Problem: "p",
		Frontends: []doctor.Frontend{{Address: at, Kind: "ClusterIP", ProxyPort: 11000, Holder: "shop/old"}}}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
		t.Error(d)
	}
}

// A client without rights, and one without a daemon, are told apart.
func TestDeniedToDoctor(t *testing.T) {
	err := denied(adminsocket.ErrPermission)
	if !errors.Is(err, doctor.ErrDenied) || !errors.Is(err, adminsocket.ErrPermission) {
		t.Error(err)
	}
	if err := denied(adminsocket.ErrNotReachable); errors.Is(err, doctor.ErrDenied) || err == nil {
		t.Error(err)
	}
}

func TestUnicodeLocale(t *testing.T) {
	for value, want := range map[string]bool{"C": false, "": false, "de_DE.UTF-8": true, "C.utf8": true} {
		env := map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": value}
		if value == "" {
			env = nil
		}
		if got := unicodeLocale(func(name string) string { return env[name] }); got != want {
			t.Errorf("LC_ALL=%s: %t", value, got)
		}
	}
}
