package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionOf(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0"}}
	if is := versionOf(info); is != "v0.1.0 (go1.26.8)" {
		t.Errorf("without a revision: %s", is)
	}
	info.Settings = []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "3e4575a"}}
	if is := versionOf(info); is != "v0.1.0 3e4575a (go1.26.8)" {
		t.Errorf("with a revision: %s", is)
	}
}

func TestVersionCommand(t *testing.T) {
	var out strings.Builder
	cmd := root()
	cmd.SetArgs([]string{"version"})
	cmd.SetOut(&out)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if want := "portald " + version() + " "; !strings.HasPrefix(out.String(), want) {
		t.Errorf("%q does not begin with %q", &out, want)
	}
}
