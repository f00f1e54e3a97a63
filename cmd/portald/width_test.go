package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Above these a package is one wide object cut into files.
const (
	maxKnot    = 12 // files of a package that depend on each other
	maxMethods = 25 // of a type in the data path
	maxFields  = 20
)

// dataPath is the packages that a byte or a datagram passes.
var dataPath = []string{
	"proxy/balance", "proxy/quota", "proxy/splice", "proxy/splice/epoll", "proxy/splice/goroutine", "proxy/userspace",
	"proxy/waitqueue",
}

// No package is one object cut into files: few of its files depend on each other. Types of the data path are narrow.
func TestWidth(t *testing.T) {
	for _, p := range checkedPackages(t) {
		if knot := largestKnot(p.files()); len(knot) > maxKnot {
			t.Errorf("%s: %d files depend on each other, want %d at most: %s", p.path, len(knot), maxKnot,
				strings.Join(knot, " "))
		}
		if !slices.Contains(dataPath, p.path) {
			continue
		}
		for _, name := range p.types.Scope().Names() {
			named, ok := p.types.Scope().Lookup(name).Type().(*types.Named)
			if !ok || named.Obj().Name() != name {
				continue
			}
			fields := 0
			if s, ok := named.Underlying().(*types.Struct); ok {
				fields = s.NumFields()
			}
			if named.NumMethods() > maxMethods || fields > maxFields {
				t.Errorf("%s.%s has %d methods and %d fields, want %d and %d at most", p.path, name, named.NumMethods(),
					fields, maxMethods, maxFields)
			}
		}
	}
}

// checkedPackage is one of the product's, without tests, as the compiler understands it.
type checkedPackage struct {
	path   string // below the module
	set    *token.FileSet
	syntax []*ast.File
	types  *types.Package
	info   types.Info
}

func checkedPackages(t *testing.T) (all []*checkedPackage) {
	t.Helper()
	// With -export go list compiles what the build cache lacks.
	list := []string{"-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, floor := range floors {
		list = append(list, module+floor+"/...")
	}
	out := goList(t, runtime.GOOS, list...)
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
	}
	var ours []listed
	compiled := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		compiled[p.ImportPath] = p.Export
		if path, is := strings.CutPrefix(p.ImportPath, module); is && floorOf(path) >= 0 && !forTests(path) {
			ours = append(ours, p)
		}
	}
	set := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		if compiled[path] == "" {
			return nil, fmt.Errorf("%s is not compiled", path)
		}
		return os.Open(compiled[path])
	})}
	for _, l := range ours {
		p := &checkedPackage{path: strings.TrimPrefix(l.ImportPath, module), set: set,
			info: types.Info{Uses: map[*ast.Ident]types.Object{}}}
		for _, name := range l.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			p.syntax = append(p.syntax, file)
		}
		checked, err := config.Check(l.ImportPath, set, p.syntax, &p.info)
		if err != nil {
			t.Fatal(err)
		}
		p.types = checked
		all = append(all, p)
	}
	return all
}

// files returns on which other files of the package each depends: those that declare what it names.
func (p *checkedPackage) files() map[string][]string {
	uses := map[string][]string{}
	for _, file := range p.syntax {
		self := p.fileOf(file.FileStart)
		uses[self] = nil
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if o := p.info.Uses[id]; o != nil && o.Pkg() == p.types && shared(o) && p.fileOf(o.Pos()) != self {
				uses[self] = append(uses[self], p.fileOf(o.Pos()))
			}
			return true
		})
		slices.Sort(uses[self])
		uses[self] = slices.Compact(uses[self])
	}
	return uses
}

func (p *checkedPackage) fileOf(at token.Pos) string {
	return filepath.Base(p.set.Position(at).Filename)
}

// shared tells whether files other than the declaring one may name an object.
func shared(o types.Object) bool {
	switch o := o.(type) {
	case *types.Var:
		if o.IsField() {
			return true
		}
	case *types.Func:
		return true
	case *types.PkgName:
		return false
	}
	return o.Parent() == o.Pkg().Scope()
}

// largestKnot returns the largest set of nodes that all lead to each other.
func largestKnot(leadsTo map[string][]string) (largest []string) {
	reached := map[string]map[string]bool{}
	for from := range leadsTo {
		reached[from] = map[string]bool{}
		for next := slices.Clone(leadsTo[from]); len(next) > 0; {
			to := next[len(next)-1]
			if next = next[:len(next)-1]; !reached[from][to] {
				reached[from][to] = true
				next = append(next, leadsTo[to]...)
			}
		}
	}
	for from := range leadsTo {
		var knot []string
		for to := range reached[from] {
			if reached[to][from] {
				knot = append(knot, to)
			}
		}
		if len(knot) > len(largest) {
			largest = knot
		}
	}
	slices.Sort(largest)
	return largest
}
