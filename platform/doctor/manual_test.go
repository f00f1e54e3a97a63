package doctor

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	manual    = "../../docs/doctor.md"
	madeBegin = "<!-- made from the checks: UPDATE_GOLDEN=1 go test ./platform/doctor -->\n"
	madeEnd   = "<!-- end of what is made -->\n"
)

// The manual's tables are made from the checks. UPDATE_GOLDEN=1 writes them again.
func TestManualHasEveryCheck(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), madeBegin)
	_, after, ok2 := strings.Cut(rest, madeEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the checks", manual)
	}
	want := before + madeBegin + tables() + madeEnd + after
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(manual, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("the tables of %s are not those of the checks: run UPDATE_GOLDEN=1 go test ./platform/doctor", manual)
	}
}

func tables() string {
	var out strings.Builder
	for _, system := range []struct{ title, name string }{{"On every system", ""}, {"On Linux", linux}, {"On " +
		"Windows", windows}} {
		fmt.Fprintf(&out, "\n### %s\n\n| check | severity | what it finds | why it matters | what to do "+
			"|\n|---|---|---|---|---|\n",
			system.title)
		for _, c := range Checks() {
			if c.System == system.name {
				fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", c.Name, c.Severity, cell(c.What), cell(c.Why), cell(c.Do))
			}
		}
	}
	return out.String() + "\n"
}

// cell escapes what would end a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// A check says all that its findings and the manual need.
func TestChecksAreWhole(t *testing.T) {
	names := map[string]bool{}
	for _, c := range Checks() {
		if c.Name == "" || names[c.Name] || c.What == "" || c.Why == "" || c.Do == "" || c.run == nil || c.Severity == OK {
			t.Errorf("%+v", c)
		}
		names[c.Name] = true
	}
}
