package metrics

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// kubernetesLibrary is a module of Kubernetes in this program. Its version v0.37.2 is of the release v1.37.2.
const kubernetesLibrary = "k8s.io/component-base"

// buildInfo tells what this program was built from, as two metrics: for those who ask portald, and for those who ask
// whatever serves Services on the nodes of the cluster which release of Kubernetes that is of.
func buildInfo() []prometheus.Collector {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	own, kubernetes := buildLabels(info)
	return []prometheus.Collector{
		constant("portald_build_info", "What portald was built from. The value is always 1.", own),
		constant("kubernetes_build_info", "What Kubernetes this program is of. The value is always 1.", kubernetes),
	}
}

func constant(name, help string, labels prometheus.Labels) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	g.Set(1)
	return g
}

func buildLabels(info *debug.BuildInfo) (own, kubernetes prometheus.Labels) {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	release, major, minor := KubernetesRelease(info.Deps)
	own = prometheus.Labels{
		"version": info.Main.Version, "revision": settings["vcs.revision"], "goversion": runtime.Version(),
		"kubernetes": release,
	}
	kubernetes = prometheus.Labels{
		"major": major, "minor": minor, "git_version": release + "+portald", // as k3s has v1.37.2+k3s1
		"git_commit": settings["vcs.revision"], "git_tree_state": treeState(settings["vcs.modified"]),
		"build_date": settings["vcs.time"], "go_version": runtime.Version(), "compiler": runtime.Compiler,
		"platform": runtime.GOOS + "/" + runtime.GOARCH,
	}
	return own, kubernetes
}

// KubernetesRelease is the release of the Kubernetes libraries: v1.37.2, 1, 37.
func KubernetesRelease(modules []*debug.Module) (release, major, minor string) {
	for _, m := range modules {
		rest, ok := strings.CutPrefix(m.Version, "v0.")
		if m.Path != kubernetesLibrary || !ok {
			continue
		}
		minor, _, _ = strings.Cut(rest, ".")
		return "v1." + rest, "1", minor
	}
	return "v0.0.0", "", ""
}

func treeState(modified string) string {
	switch modified {
	case "false":
		return "clean"
	case "true":
		return "dirty"
	}
	return ""
}
