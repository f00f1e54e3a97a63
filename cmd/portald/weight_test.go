package main

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

// heavy are packages that make the program larger by megabytes, wherever they are imported.
var heavy = []string{
	"k8s.io/client-go/kubernetes",        // the clients of all API groups: use proxy/kube/apiclient
	"k8s.io/client-go/kubernetes/scheme", // the kinds of all API groups
	"k8s.io/client-go/informers",
	"google.golang.org/grpc",
	"html/template", // the linker keeps each exported method, as a template might name it
}

func TestNothingHeavyIsImported(t *testing.T) {
	for _, pkg := range strings.Fields(goList(t, runtime.GOOS, "-deps", ".")) {
		if slices.Contains(heavy, pkg) {
			t.Errorf("portald imports %s, by way of some package: go list -deps -f '{{.ImportPath}}: {{.Imports}}' says which",
				pkg)
		}
	}
}
