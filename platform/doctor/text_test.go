package doctor

import (
	"bytes"
	"testing"
)

func TestText(t *testing.T) {
	r := &Report{System: linux, Daemon: "portald v1", Findings: []Finding{
		{"xtables-lock", Error, "held by \x1b[2Jevil", "It waits.", "ps"}, {"clock", Warning, "off", "Times.", "ntp"},
		{"kernel", OK, "Linux 6", "", ""},
	}, NotChecked: []NotChecked{{"ports", "no rights"}, {"routes", "no rights"}}}
	const tail = "1 error, 1 warning, 0 notes, 1 ok, 2 not checked; portald v1\n"
	for want, style := range map[string]Style{
		"✗ xtables-lock: held by \\x1b[2Jevil\n" +
			"    why: It waits.\n    do:  ps\n! clock: off\n    why: Times.\n    do:  ntp\n" +
			"? not checked, because no rights: ports, routes\n" + tail: {},
		"XX xtables-lock: held by \\x1b[2Jevil\n" +
			"    why: It waits.\n    do:  ps\n!! clock: off\n    why: Times.\n    do:  ntp\n" +
			"ok kernel: Linux 6\n?? not checked, because no rights: ports, routes\n" + tail: {ASCII: true, Verbose: true},
		"\x1b[31m✗\x1b[0m xtables-lock: held by \\x1b[2Jevil\n" +
			"    why: It waits.\n    do:  ps\n\x1b[33m!\x1b[0m clock: off\n" +
			"    why: Times.\n    do:  ntp\n? not checked, because no rights: ports, routes\n" + tail: {Color: true},
	} {
		var out bytes.Buffer
		if err := r.Text(&out, style); err != nil || out.String() != want {
			t.Errorf("%+v: %v\ngot  %q\nwant %q", style, err, out.String(), want)
		}
	}
}
