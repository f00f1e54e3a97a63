package main

import (
	"strings"
	"testing"

	"github.com/portald/portald/cmd/portald/buildinfo"
)

func TestVersionCommand(t *testing.T) {
	var out strings.Builder
	cmd := root()
	cmd.SetArgs([]string{"version"})
	cmd.SetOut(&out)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if want := "portald " + buildinfo.Version() + " "; !strings.HasPrefix(out.String(), want) {
		t.Errorf("%q does not begin with %q", &out, want)
	}
}
