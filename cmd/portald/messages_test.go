package main

import (
	"cmp"
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
)

const (
	messagesPage = "../../docs/messages.md"
	messagesHave = "<!-- made from the code: UPDATE_GOLDEN=1 go test ./cmd/portald -->\n"
)

// logged are the methods of a logger, by the level of what they log.
var logged = map[string]string{
	"Debug": "debug", "Debugf": "debug", "Info": "info", "Infof": "info", "Warn": "warning", "Warnf": "warning",
	"Error": "error", "Errorf": "error", "Fatal": "fatal", "Fatalf": "fatal",
}

// messages are the rows of all that the program logs: level, message, package.
func messages(t *testing.T) []string {
	t.Helper()
	var rows []string
	for _, floor := range floors {
		err := filepath.WalkDir("../../"+floor, func(path string, d fs.DirEntry, err error) error {
			pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")
			if err != nil || d.IsDir() || forTests(pkg) || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || logged[method.Sel.Name] == "" || onlyErrors(method.X) {
					return true
				}
				for _, text := range textsOf(file, call.Args[0]) {
					rows = append(rows, fmt.Sprintf("| %s | %s | `%s` |", logged[method.Sel.Name],
						strings.ReplaceAll(text, "|", "\\|"), pkg))
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

// onlyErrors tells whether a method called Errorf is of package fmt and its like, and logs nothing.
func onlyErrors(of ast.Expr) bool {
	x, ok := of.(*ast.Ident)
	return ok && (x.Name == "fmt" || x.Name == "t" || x.Name == "errors")
}

// textsOf are the texts of what is logged: a constant, or those that its file gives to a name.
func textsOf(file *ast.File, e ast.Expr) (texts []string) {
	name, ok := e.(*ast.Ident)
	if !ok {
		return slices.DeleteFunc([]string{textOf(e)}, func(s string) bool { return s == "" })
	}
	given := func(to, value ast.Expr) {
		if id, ok := to.(*ast.Ident); ok && id.Name == name.Name && textOf(value) != "" {
			texts = append(texts, textOf(value))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, value := range n.Values {
				given(n.Names[i], value)
			}
		case *ast.AssignStmt:
			for i := range min(len(n.Lhs), len(n.Rhs)) {
				if n.Tok != token.ADD_ASSIGN {
					given(n.Lhs[i], n.Rhs[i])
				}
			}
		}
		return true
	})
	return texts
}

// textOf is a text that may be put together, with … for what is no constant; empty: none of it is one.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		x, y := textOf(e.X), textOf(e.Y)
		if x == "" && y == "" {
			return ""
		}
		return cmp.Or(x, "…") + cmp.Or(y, "…")
	}
	return ""
}

// The page has every message of the log.
func TestManualHasEveryMessage(t *testing.T) {
	page, err := os.ReadFile(messagesPage)
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(page), messagesHave)
	if !ok {
		t.Fatalf("%s has no line %q", messagesPage, messagesHave)
	}
	want := before + messagesHave + "| level | message | package |\n|---|---|---|\n" +
		strings.Join(messages(t), "\n") + "\n"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(messagesPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("%s is not what the program logs: run UPDATE_GOLDEN=1 go test ./cmd/portald", messagesPage)
	}
}
