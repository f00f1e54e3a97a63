package iptables

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// marks tells whether the host marks replies in IPv4.
func (f *fake) marks() bool { return f.count("iptables mangle") > 0 }

func TestDivert(t *testing.T) {
	host := newFake()
	counts := map[string]int{}
	o := richOptions(host.run, "")
	o.RuleCount = func(family inet.Family, table string, rules int) { counts[fmt.Sprint(table, family)] = rules }
	w := newWriter(t, o)
	if w.Diverts(inet.IPv4) || host.marks() {
		t.Error("marks before Replace")
	}
	if err := w.Replace(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if !w.Diverts(inet.IPv4) || !w.Diverts(inet.IPv6) || !host.marks() || counts["mangleIPv4"] != 2 ||
		counts["mangleIPv6"] != 2 {
		t.Errorf("after Replace: IPv4 %t, IPv6 %t, rules %v", w.Diverts(inet.IPv4), w.Diverts(inet.IPv6), counts)
	}
	host.tables["iptables mangle"]["PREROUTING"] = nil
	if err := w.Audit(t.Context()); err == nil || !strings.Contains(err.Error(), "table mangle: no rule") {
		t.Errorf("without the jump, the audit says %v", err)
	}
	if err := w.Cleanup(t.Context()); err != nil || host.marks() || w.Diverts(inet.IPv4) {
		t.Errorf("after Cleanup: %v, %d rules", err, host.count("iptables mangle"))
	}
}

// An earlier run's marks go, with the first Replace or with Cleanup.
func TestDivertIsUndone(t *testing.T) {
	for what, undo := range map[string]func(*Writer) error{
		"Replace": func(w *Writer) error { return w.Replace(t.Context(), nil) },
		"Cleanup": func(w *Writer) error { return w.Cleanup(t.Context()) },
	} {
		host := newFake()
		if err := newWriter(t, richOptions(host.run, "")).Replace(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		w := newWriter(t, testOptions(host.run, ""))
		if err := undo(w); err != nil || host.marks() || w.Diverts(inet.IPv4) {
			t.Errorf("%s without a mark: %v, %d rules are left", what, err, host.count("iptables mangle"))
		}
	}
}

// A kernel without the match is served all the same, told of once, and marks as soon as it can.
func TestHostThatCannotDivert(t *testing.T) {
	host := newFake()
	host.lacks = "-m socket"
	var said []string
	o := richOptions(host.run, "")
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
	if w.Diverts(inet.IPv4) || len(said) != 2 || !strings.Contains(said[0], "IPv4") ||
		!strings.Contains(said[1], "IPv6") {
		t.Errorf("marks: %t, said %q, want a line for each family", w.Diverts(inet.IPv4), said)
	}
	host.lacks = ""
	if err := w.Replace(t.Context(), goldenPortals()); err != nil || !w.Diverts(inet.IPv4) {
		t.Errorf("with the match: %v, marks: %t", err, w.Diverts(inet.IPv4))
	}
}

// Who is inside changes with the next Replace.
func TestSetInside(t *testing.T) {
	host := newFake()
	w := newWriter(t, testOptions(host.run, ""))
	replace := func() {
		t.Helper()
		if err := w.Replace(t.Context(), goldenPortals()); err != nil {
			t.Fatal(err)
		}
		if err := w.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	}
	pods := func() (n int) {
		for _, rules := range host.tables["iptables nat"] {
			for _, rule := range rules {
				if strings.HasPrefix(rule, "-s 10.244.0.0/16 ") {
					n++
				}
			}
		}
		return n
	}
	replace()
	if err := w.SetLocalDetector(portal.LocalDetector{Sources: prefixes("10.244.0.0/16")}); err != nil || pods() != 0 {
		t.Errorf("before Replace: %v, %d rules for pods", err, pods())
	}
	replace()
	if pods() != 2 {
		t.Errorf("%d rules for pods, want one a portal", pods())
	}
	if err := w.SetLocalDetector(portal.LocalDetector{Interface: "a b"}); err == nil {
		t.Error("an interface with a blank is taken")
	}
	if err := w.SetLocalDetector(portal.LocalDetector{}); err != nil {
		t.Error(err)
	}
	if replace(); pods() != 0 {
		t.Errorf("%d rules for pods, want none", pods())
	}
}
