package config

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/portald/portald/portal/service"
)

const (
	manual = "../../../docs/configuration.md"
	end    = "<!-- end of what is made -->\n"
)

// made begins the part of the manual that a test makes.
func made(of string) string {
	return "<!-- made from the " + of + ": UPDATE_GOLDEN=1 go test ./cmd/portald/config -->\n"
}

// The tables of the manual are made from the settings. UPDATE_GOLDEN=1 writes them again.
func TestManualHasEverySetting(t *testing.T) {
	text, err := os.ReadFile(manual)
	check(t, err)
	want := string(text)
	for of, table := range map[string]string{"annotations": annotationTable(), "settings": tables()} {
		before, rest, ok1 := strings.Cut(want, made(of))
		_, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s has no place for the %s", manual, of)
		}
		want = before + made(of) + table + end + after
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		check(t, os.WriteFile(manual, []byte(want), 0o644))
		return
	}
	if d := gocmp.Diff(want, string(text)); d != "" {
		t.Errorf("the tables are not those of the settings (-want +got)\n%s", d)
	}
}

// Flags that are no settings are in the manual nevertheless.
func TestManualHasEveryFlag(t *testing.T) {
	text, err := os.ReadFile(manual)
	check(t, err)
	for _, s := range NewFlags().Sections() {
		s.Flags.VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(string(text), "`--"+f.Name) {
				t.Errorf("--%s is not there", f.Name)
			}
		})
	}
}

// annotationTable lists the settings of a Service.
func annotationTable() string {
	var out strings.Builder
	out.WriteString("\n| annotation | value | default | description |\n|---|---|---|---|\n")
	for _, s := range service.Settings() {
		fallback := ""
		if field := s.Field; field != "" || s.Name == "mode" {
			fallback = "`" + cmp.Or(field, s.Name) + "`"
		}
		fmt.Fprintf(&out, "| `portald.io/%s` | %s | %s | %s |\n", s.Name, s.Value.Form(), fallback, s.About)
	}
	return out.String() + "\n"
}

// tables are the settings by topic.
func tables() string {
	plain := documents{system: "linux"}
	plain.setDefaults()
	var out strings.Builder
	for _, t := range usedTopics() {
		fmt.Fprintf(&out, "\n### %s\n\n| field | flag | default | description | takes effect |\n"+
			"|---|---|---|---|---|\n", t.title)
		for _, s := range t.settings {
			counts := "at the next start"
			if s.effect == live {
				counts = "at once"
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", fieldName(s), flagName(s), defaultOf(&plain, s), s.text, counts)
		}
	}
	fmt.Fprint(&out, "\n### Accepted from kube-proxy, without effect\n\n| field | flag | default | why |\n"+
		"|---|---|---|---|\n")
	for _, s := range unusedSettings() {
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", fieldName(s), flagName(s), defaultOf(&plain, s), s.text)
	}
	return out.String() + "\n"
}

// fieldName marks the fields of portald's own document.
func fieldName(s setting) string {
	if s.doc == portald {
		return "**`" + s.path + "`**"
	}
	return "`" + s.path + "`"
}

func flagName(s setting) string {
	if s.flag == "" {
		return ""
	}
	return "`--" + s.flag + "`"
}

func defaultOf(plain *documents, s setting) string {
	field := plain.at(s)
	if !field.IsValid() {
		return ""
	}
	if text := shown(field.Interface()); text != `""` && text != "<none>" {
		return "`" + text + "`"
	}
	return ""
}
