package buildinfo

import (
	"runtime/debug"
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
