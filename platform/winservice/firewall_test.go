package winservice

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"
)

// fakeFirewall is netsh with rules, by name and program.
type fakeFirewall struct {
	rules []string
	codes map[string]int // by verb: what it ends with, without doing anything
	hangs bool
}

func (f *fakeFirewall) netsh(ctx context.Context, args ...string) (int, string, error) {
	if f.hangs {
		<-ctx.Done()
		return 0, "", ctx.Err()
	}
	verb, name := args[2], "name="+Name
	if code := f.codes[verb]; code != 0 {
		return code, "\r\nNicht gefunden.\r\n" + strings.Repeat("Syntax: … ", 1000), nil
	}
	if !slices.Equal(args[:2], []string{"advfirewall", "firewall"}) || args[3] != "rule" || args[4] != name {
		return 1, "usage", nil
	}
	switch verb {
	case "add": // netsh adds a second rule of the same name
		f.rules = append(f.rules, args[7])
	case "delete":
		f.rules = nil
	case "show":
		if len(f.rules) == 0 {
			return 1, "Es wurden keine Regeln gefunden, die mit den angegebenen Kriterien übereinstimmen.", nil
		}
	}
	return 0, "OK.", nil
}

func TestFirewall(t *testing.T) {
	ctx := t.Context()
	host := &fakeFirewall{}
	f := Firewall{Netsh: host.netsh}
	for _, program := range []string{`C:\old\portald.exe`, `C:\Program Files\portald.exe`} {
		if err := f.Allow(ctx, program); err != nil || !slices.Equal(host.rules, []string{"program=" + program}) {
			t.Fatalf("%v, %q", err, host.rules)
		}
	}
	if there, err := f.Allows(ctx); !there || err != nil {
		t.Error(there, err)
	}
	for range 2 {
		if err := f.Remove(ctx); err != nil || len(host.rules) > 0 {
			t.Error(err, host.rules)
		}
		if there, err := f.Allows(ctx); there || err != nil {
			t.Error(there, err)
		}
	}
}

func TestFirewallFails(t *testing.T) {
	for verb, code := range map[string]int{"add": 1, "show": 5} {
		f := Firewall{Netsh: (&fakeFirewall{codes: map[string]int{verb: code}}).netsh}
		if err := f.Allow(t.Context(), "p"); err == nil || !strings.Contains(err.Error(), ": Nicht gefunden. Syntax") ||
			len(err.Error()) > 300 || !utf8.ValidString(err.Error()) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	f := Firewall{Netsh: (&fakeFirewall{rules: []string{"program=p"}, codes: map[string]int{"delete": 1}}).netsh}
	if err := f.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "remove the rule") {
		t.Error(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := Firewall{Netsh: (&fakeFirewall{hangs: true}).netsh}
		if _, err := f.Allows(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestAllowCommand(t *testing.T) {
	const want = `netsh advfirewall firewall add rule name=portald dir=in action=allow ` +
		`program="C:\Program Files\portald.exe" profile=any enable=yes ` +
		`description="Services of Kubernetes that portald serves"`
	if got := AllowCommand(`C:\Program Files\portald.exe`); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
