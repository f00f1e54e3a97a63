package winservice

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	manual = "../../docs/windows-events.md"
	made   = "<!-- made from the events: UPDATE_GOLDEN=1 go test ./platform/winservice -->\n"
	end    = "<!-- end of what is made -->\n"
)

// The manual has every event. UPDATE_GOLDEN=1 writes its table again.
func TestManualHasEveryEvent(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), made)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the events", manual)
	}
	want := before + made + table() + end + after
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(manual, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if d := cmp.Diff(want, string(text)); d != "" {
		t.Errorf("the table is not that of the events (-want +got)\n%s", d)
	}
}

func table() string {
	var out strings.Builder
	out.WriteString("\n| ID | severity | what it means | what to do |\n|---|---|---|---|\n")
	for _, e := range Events() {
		fmt.Fprintf(&out, "| %d | %s | %s | %s |\n", e.ID, e.Severity, e.Means, e.Do)
	}
	return out.String() + "\n"
}

func TestEventIDs(t *testing.T) {
	var last uint32
	for _, e := range Events() {
		if e.ID <= last || e.ID > 1000 || e.Means == "" || e.Do == "" {
			t.Errorf("event %d after %d: %+v", e.ID, last, e)
		}
		last = e.ID
	}
}

// Each line of Events is the beginning of a text in the source.
func TestEventsAreLogged(t *testing.T) {
	said := texts(t)
	for _, e := range Events() {
		for _, line := range e.Lines {
			if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, line) }) {
				t.Errorf("event %d: nothing in the source logs %q", e.ID, line)
			}
			if id := eventOf(e.Severity, line+" …"); id != e.ID {
				t.Errorf("%q is event %d, want %d", line, id, e.ID)
			}
		}
	}
}

// texts are the texts in the source of the product, except the events' own.
func texts(t *testing.T) (out []string) {
	t.Helper()
	for _, room := range []string{"cmd", "platform", "portal", "proxy"} {
		err := filepath.WalkDir(filepath.Join("../..", room), func(path string, d fs.DirEntry, err error) error {
			name := d.Name()
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "events.go" {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, _ := strconv.Unquote(lit.Value)
					out = append(out, text)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
