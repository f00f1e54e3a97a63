package main

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module       = "github.com/portald/portald/"
	architecture = "../../docs/architecture.md"
)

// floors are the top-level folders, the lowest first: what is in one imports nothing of a higher one.
var floors = []string{"platform", "portal", "proxy", "cmd"}

// imports lists what each of our packages imports on Linux and on Windows: ours by their folder, others by their path.
// Packages of integration, which is no part of the product, are not in it.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string]map[string]bool{}
	for _, system := range []string{"linux", "windows"} {
		out := goList(t, system, "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...")
		for line := range strings.Lines(out) {
			fields := strings.Fields(line)
			pkg := strings.TrimPrefix(fields[0], module)
			if floorOf(pkg) < 0 {
				continue
			}
			if found[pkg] == nil {
				found[pkg] = map[string]bool{}
			}
			for _, imported := range fields[1:] {
				found[pkg][strings.TrimPrefix(imported, module)] = true
			}
		}
	}
	all := map[string][]string{}
	for pkg, imported := range found {
		all[pkg] = slices.Sorted(maps.Keys(imported))
	}
	return all
}

// goList returns what "go list" prints of packages for a system.
func goList(t *testing.T, system string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the packages are listed where they are built: ", err)
	}
	list := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	list.Env = append(os.Environ(), "GOOS="+system)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// floorOf returns the floor of a package, -1 if it is on none of ours.
func floorOf(pkg string) int {
	folder, _, _ := strings.Cut(pkg, "/")
	return slices.Index(floors, folder)
}

// forTests tells whether only tests may import a package.
func forTests(pkg string) bool { return strings.HasSuffix(pkg, "test") }

// tables returns, of the rows of a section's tables, the first cell and what the last lists.
func tables(t *testing.T, heading string) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	level, _, _ := strings.Cut(heading, " ")
	_, text, ok := strings.Cut(string(page), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no %q", architecture, heading)
	}
	if end := regexp.MustCompile("\n#{1," + strconv.Itoa(len(level)) + "} ").FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	rows := map[string][]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		name, ok := strings.CutPrefix(cells[0], "| `")
		if !ok {
			continue
		}
		last := strings.TrimSuffix(cells[len(cells)-1], " |")
		rows[strings.TrimSuffix(name, "`")] = strings.Split(last, ", ")
	}
	return rows
}

// The tables of docs/architecture.md list what each package imports of ours, no more and no less.
func TestArrows(t *testing.T) {
	listed, found := tables(t, "## Packages"), imports(t)
	short := map[string]string{}
	for pkg := range found {
		if other := short[path.Base(pkg)]; other != "" {
			t.Errorf("%s and %s have one name", pkg, other)
		}
		short[path.Base(pkg)] = pkg
	}
	for pkg, imported := range found {
		if _, ok := listed[pkg]; !ok {
			t.Errorf("%s is a new package: add it to %s", pkg, architecture)
			continue
		}
		var ours []string
		for _, i := range imported {
			if floorOf(i) >= 0 {
				ours = append(ours, path.Base(i))
			}
		}
		want := slices.DeleteFunc(slices.Clone(listed[pkg]), func(s string) bool { return s == "–" })
		if slices.Sort(ours); !slices.Equal(ours, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: %s lists the imports %s; the code has %s", architecture, pkg, strings.Join(want, ", "),
				strings.Join(ours, ", "))
		}
	}
	for pkg := range listed {
		if _, is := found[pkg]; strings.Contains(pkg, "/") && floorOf(pkg) >= 0 && !is {
			t.Errorf("%s lists %s, which is no package", architecture, pkg)
		}
	}
}

// Nothing climbs a floor, and only tests import what is for tests.
func TestFloors(t *testing.T) {
	for pkg, imported := range imports(t) {
		for _, i := range imported {
			if floorOf(i) > floorOf(pkg) {
				t.Errorf("%s imports %s, which is a floor above", pkg, i)
			}
			if floorOf(i) >= 0 && forTests(i) && !forTests(pkg) {
				t.Errorf("%s imports %s, which is for tests", pkg, i)
			}
		}
	}
}

// Each library has the rooms that docs/architecture.md lists.
func TestLibraries(t *testing.T) {
	listed := tables(t, "### Libraries")
	rooms := map[string]map[string]bool{}
	for pkg, imported := range imports(t) {
		for _, i := range imported {
			if host, _, _ := strings.Cut(i, "/"); !strings.Contains(host, ".") {
				continue // of the standard library, or ours
			}
			library := i
			for name := range listed {
				if i == name || strings.HasPrefix(i, name+"/") {
					library = name
				}
			}
			if rooms[library] == nil {
				rooms[library] = map[string]bool{}
			}
			rooms[library][path.Base(pkg)] = true
		}
	}
	for library, in := range rooms {
		want, got := slices.Sorted(slices.Values(listed[library])), slices.Sorted(maps.Keys(in))
		if !slices.Equal(got, want) {
			t.Errorf("%s: %s is listed in %s; the code has it in %s", architecture, library, strings.Join(want, ", "),
				strings.Join(got, ", "))
		}
	}
	for library := range listed {
		if rooms[library] == nil {
			t.Errorf("%s lists %s, which nothing imports", architecture, library)
		}
	}
}
