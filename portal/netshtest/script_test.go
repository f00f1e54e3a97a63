package netshtest

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The script that captures a real node gives its runs the names, and its file the fields, that are read here.
func TestScriptWritesCaptures(t *testing.T) {
	text, err := os.ReadFile("../../deploy/windows/capture.ps1")
	if err != nil {
		t.Fatal(err)
	}
	script := string(text)
	for _, name := range Everything() {
		if !regexp.MustCompile(`-Name ('` + string(name) + `'|"` + string(name) + `\$suffix") `).MatchString(script) {
			t.Errorf("the script has no run %q", name)
		}
	}
	for _, record := range []any{
		Capture{}, Captured{}, Interface{}, address{}, PortRange{}, HNSObject{}, Dial{}, PodDial{}, Timing{},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(record)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !regexp.MustCompile(`[\s.]` + name + `\s*= `).MatchString(script) {
				t.Errorf("the script writes no field %q of a %T", name, record)
			}
		}
	}
}
