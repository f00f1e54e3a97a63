package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/portald/portald/"

// arrows lists which of our packages each package may import; docs/architecture.md shows the same. A new arrow is a
// design decision, made here.
var arrows = map[string][]string{
	"proxy/service":      {},
	"proxy/balance":      {"proxy/service"},
	"platform":           {"proxy/service"},
	"platform/netfilter": {"platform", "portal/nftables/nfnl", "proxy/service"},
	"platform/doctor": {"platform", "platform/netfilter", "platform/winservice", "proxy/printable",
		"proxy/service"},
	"platform/systemd":            {},
	"platform/winservice":         {"proxy/printable"},
	"proxy/splice":                {"proxy/service"},
	"proxy/splice/pipe":           {"proxy/splice"},
	"proxy/splice/goroutine":      {"proxy/service", "proxy/splice", "proxy/splice/pipe"},
	"proxy/splice/epoll":          {"proxy/service", "proxy/splice", "proxy/splice/pipe"},
	"portal":                      {"proxy/service"},
	"proxy":                       {"proxy/service"},
	"proxy/kube/translate":        {"proxy/service"},
	"proxy/kube/compare":          {"proxy/kube/translate", "proxy/service", "proxy/yamldocs"},
	"proxy/kube/watch":            {"proxy/kube/translate", "proxy/printable", "proxy/secret", "proxy/service"},
	"proxy/kube/wake":             {"proxy/service"},
	"proxy/kube/manifests":        {"proxy/kube/translate", "proxy/dirwatch", "proxy/yamldocs"},
	"proxy/dirwatch":              {},
	"proxy/printable":             {},
	"proxy/secret":                {},
	"proxy/yamldocs":              {},
	"proxy/kube/fixture":          {"proxy/service"},
	"proxy/userspace":             {"proxy/service", "proxy/balance", "proxy/splice", "portal"},
	"proxy/kernel":                {"proxy/service", "portal"},
	"proxy/kernel/flows":          {"proxy/service", "proxy/splice"},
	"proxy/dataplane":             {"proxy/service", "portal"},
	"proxy/admin":                 {"proxy/printable", "proxy/service", "proxy/splice"},
	"proxy/handover":              {"platform", "proxy/balance", "proxy/service", "proxy/splice"},
	"proxy/handover/handovertest": {"platform"},
	"proxy/adminapi":              {"platform", "proxy/explain", "proxy/printable", "proxy/records", "proxy/splice"},
	"proxy/explain":               {"platform/netfilter", "portal", "proxy/kernel/flows", "proxy/service", "proxy/splice"},
	"proxy/records":               {"proxy/printable", "proxy/service", "proxy/splice"},
	"proxy/records/otlp":          {"proxy/records", "proxy/secret"},
	"portal/writer":               {"portal", "proxy/service"},
	"portal/iptables": {"portal", "portal/nftables/nfnl", "portal/writer", "proxy/service", "platform",
		"platform/netfilter"},
	"portal/nftables/nfnl":  {},
	"portal/nftables":       {"platform", "portal", "portal/writer", "portal/nftables/nfnl", "proxy/service"},
	"portal/ipvs":           {"portal", "portal/writer", "proxy/service", "platform"},
	"portal/netsh":          {"platform", "portal", "portal/writer", "proxy/service"},
	"portal/netsh/netshsim": {},
	"portal/portaltest":     {"portal", "proxy/service"},
	"cmd/portald/config": {"platform", "portal", "portal/netsh", "proxy/adminapi", "proxy/dirwatch",
		"proxy/printable", "proxy/records", "proxy/secret", "proxy/service", "proxy/splice", "proxy/userspace",
		"proxy/yamldocs"},
	"cmd/portald/writers": {"cmd/portald/config", "platform", "portal", "portal/iptables", "portal/ipvs",
		"portal/netsh", "portal/nftables", "portal/writer", "proxy/service"},
	"cmd/portald/daemon": {"cmd/portald/config", "cmd/portald/writers", "platform", "platform/netfilter",
		"platform/systemd", "portal", "proxy", "proxy/admin", "proxy/adminapi", "proxy/balance", "proxy/dataplane",
		"proxy/explain", "proxy/handover", "proxy/kernel",
		"proxy/kernel/flows", "proxy/kube/compare", "proxy/kube/manifests", "proxy/kube/translate", "proxy/kube/wake",
		"proxy/kube/watch", "proxy/records", "proxy/records/otlp",
		"proxy/service", "proxy/splice", "proxy/splice/epoll", "proxy/splice/goroutine", "proxy/userspace"},
	"proxy/splice/splicetest": {
		"portal/portaltest", "proxy/handover", "proxy/service", "proxy/splice"},
	"cmd/portald/inspect": {"platform/doctor", "proxy/adminapi", "proxy/explain", "proxy/printable",
		"proxy/records", "proxy/splice"},
	"cmd/portald/inspect/top": {"cmd/portald/inspect", "proxy/adminapi", "proxy/records"},
	"cmd/portald": {"cmd/portald/config", "cmd/portald/daemon", "cmd/portald/inspect", "cmd/portald/inspect/top",
		"cmd/portald/writers", "platform",
		"platform/winservice", "portal/netsh", "proxy/handover", "proxy/printable"},
}

// rooms lists which packages may import each third-party module. Tests, and integration, which is not part of the
// product, are exempt.
var rooms = map[string][]string{
	"github.com/coreos/go-iptables":       {"portal/iptables"},
	"github.com/coreos/go-systemd":        {"platform/systemd"},
	"github.com/Microsoft/go-winio":       {"proxy/adminapi"},
	"github.com/fxamacker/cbor":           {"proxy/handover"},
	"github.com/gdamore/tcell":            {"cmd/portald/inspect/top"},
	"github.com/rivo/tview":               {"cmd/portald/inspect/top"},
	"github.com/go-logr/logr":             {"proxy/kube/watch"},
	"github.com/google/go-cmp":            {"portal/portaltest"},
	"github.com/fsnotify/fsnotify":        {"proxy/dirwatch"},
	"github.com/mdlayher/netlink":         {"portal/nftables/nfnl"},
	"github.com/moby/ipvs":                {"portal/ipvs"},
	"github.com/prometheus/client_golang": {"proxy/admin"},
	"gopkg.in/natefinch/lumberjack.v2":    {"proxy/records"},
	"go.opentelemetry.io/otel":            {"proxy/records/otlp"},
	"github.com/sirupsen/logrus": {"cmd/portald", "cmd/portald/config", "cmd/portald/daemon", "cmd/portald/writers",
		"platform/winservice", "proxy", "proxy/admin", "proxy/handover", "proxy/kernel/flows", "proxy/kube/fixture",
		"proxy/kube/compare", "proxy/kube/manifests", "proxy/kube/translate",
		"proxy/kube/wake", "proxy/kube/watch", "proxy/records", "proxy/records/otlp", "proxy/userspace"},
	"github.com/spf13/cobra":         {"cmd/portald", "cmd/portald/inspect", "cmd/portald/inspect/top"},
	"github.com/spf13/pflag":         {"cmd/portald/config"},
	"github.com/vishvananda/netlink": {"platform", "platform/doctor", "portal/ipvs", "portal/portaltest"},
	"github.com/vishvananda/netns":   {"portal/portaltest"},
	"go.yaml.in/yaml":                {"proxy/kube/manifests", "proxy/yamldocs"},
	"golang.org/x/net":               {"proxy/splice/goroutine"},
	"golang.org/x/sync":              {"proxy/adminapi"},
	"golang.org/x/sys": {"cmd/portald/inspect", "platform", "platform/doctor", "platform/winservice", "portal/ipvs",
		"portal/nftables/nfnl", "portal/portaltest", "cmd/portald/daemon",
		"proxy/adminapi", "proxy/records", "proxy/splice/epoll", "proxy/splice/pipe", "proxy/splice/splicetest"},
	"golang.org/x/term": {"cmd/portald/inspect"},
	"golang.org/x/text": {"portal/netsh/netshsim", "proxy/yamldocs"},
	"k8s.io/api": {"proxy/kube/compare", "proxy/kube/fixture", "proxy/kube/manifests", "proxy/kube/translate",
		"proxy/kube/wake", "proxy/kube/watch"},
	"k8s.io/apimachinery": {"cmd/portald/config", "cmd/portald/inspect", "proxy", "proxy/admin",
		"proxy/kube/compare", "proxy/kube/fixture", "proxy/kube/manifests", "proxy/kube/translate", "proxy/kube/wake",
		"proxy/kube/watch"},
	"k8s.io/client-go":      {"proxy/kube/compare", "proxy/kube/manifests", "proxy/kube/wake", "proxy/kube/watch"},
	"k8s.io/component-base": {"cmd/portald/config", "proxy/admin"},
	"k8s.io/klog":           {"proxy/kube/watch"},
	"k8s.io/kube-proxy":     {"cmd/portald/config"},
	"k8s.io/utils":          {"cmd/portald/config", "proxy/kube/translate"},
	"sigs.k8s.io/json":      {"cmd/portald/config", "proxy/kube/manifests"},
	"sigs.k8s.io/yaml":      {"cmd/portald/config", "proxy/kube/fixture"},
}

func TestArrows(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the packages are listed where they are built: ", err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		if strings.HasPrefix(pkg, "integration") {
			continue
		}
		allowed, known := arrows[pkg]
		if !known {
			t.Errorf("%s is a new package: say in this table what it may import", pkg)
			continue
		}
		for _, imported := range fields[1:] {
			if ours, ok := strings.CutPrefix(imported, module); ok {
				if !slices.Contains(allowed, ours) {
					t.Errorf("%s imports %s, which the architecture does not allow", pkg, ours)
				}
			} else if m := moduleOf(imported); m != "" && !slices.Contains(rooms[m], pkg) {
				t.Errorf("%s imports %s, whose rooms are %v", pkg, imported, rooms[m])
			}
		}
	}
}

// moduleOf returns the third-party module of a package, empty for the standard library.
func moduleOf(imported string) string {
	if host, _, _ := strings.Cut(imported, "/"); !strings.Contains(host, ".") {
		return ""
	}
	for m := range rooms {
		if imported == m || strings.HasPrefix(imported, m+"/") {
			return m
		}
	}
	return imported
}
