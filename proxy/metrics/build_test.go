package metrics

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestBuildLabels(t *testing.T) {
	info := &debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Deps: []*debug.Module{{Path: "k8s.io/api", Version: "v0.35.0"}, {Path: kubernetesLibrary, Version: "v0.37.2"}},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "af7d868"},
			{Key: "vcs.time", Value: "2026-11-21T12:00:00Z"}, {Key: "vcs.modified", Value: "true"}},
	}
	own, kubernetes := buildLabels(info)
	for name, want := range map[string]string{"version": "v1.2.3", "revision": "af7d868", "kubernetes": "v1.37.2",
		"goversion": runtime.Version()} {
		if own[name] != want {
			t.Errorf("own %s is %q, want %q", name, own[name], want)
		}
	}
	want := prometheus.Labels{"major": "1", "minor": "37", "git_version": "v1.37.2+portald", "git_commit": "af7d868",
		"git_tree_state": "dirty", "build_date": "2026-11-21T12:00:00Z", "go_version": runtime.Version(),
		"compiler": runtime.Compiler, "platform": runtime.GOOS + "/" + runtime.GOARCH}
	for name := range want {
		if kubernetes[name] != want[name] {
			t.Errorf("%s is %q, want %q", name, kubernetes[name], want[name])
		}
	}
	if len(kubernetes) != len(want) {
		t.Errorf("%v, want %v", kubernetes, want)
	}
	if _, kubernetes := buildLabels(&debug.BuildInfo{}); kubernetes["git_version"] != "v0.0.0+portald" {
		t.Errorf("without build information: %v", kubernetes)
	}
}

// The program says so itself, whatever it was built from.
func TestBuildInfo(t *testing.T) {
	n, err := testutil.GatherAndCount(NewMetrics(DefaultLimits()).registry, "portald_build_info", "kubernetes_build_info")
	if n != 2 || err != nil {
		t.Errorf("%d metrics, %v", n, err)
	}
}
