package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/portald/portald/portal/service"
)

// leaves are the paths of the fields that hold values.
func leaves(t reflect.Type, under string) (out []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "kind" || name == "apiVersion" {
			continue
		}
		path := strings.TrimPrefix(under+"."+name, ".")
		if isGroup(f.Type) {
			out = append(out, leaves(f.Type, path)...)
		} else {
			out = append(out, path)
		}
	}
	return out
}

// Every field of both documents is a setting, and is said of once. A field that a newer k8s.io/kube-proxy brings fails
// here until somebody says what it does.
func TestEveryFieldIsASetting(t *testing.T) {
	others := []string{"iptables.snatNodeInternalIP"} // of releases that the types do not know
	var d documents
	for _, which := range []doc{kubeProxy, portald} {
		listed := map[string]int{}
		for _, s := range settings() {
			if s.doc == which {
				listed[s.path]++
			}
		}
		fields := leaves(d.root(which).Type(), "")
		for _, s := range service.Settings() {
			if which == portald && s.Field != "" {
				fields = append(fields, s.Field)
			}
		}
		if len(fields) < 20 {
			t.Fatalf("%v: only %d fields were found", which, len(fields))
		}
		for _, path := range fields {
			if listed[path] != 1 {
				t.Errorf("%v: %s is a setting %d times", which, path, listed[path])
			}
			delete(listed, path)
		}
		for path := range listed {
			if !slices.Contains(others, path) {
				t.Errorf("%v: %s is a setting, and no field", which, path)
			}
		}
	}
}

func TestSettingsAreExplained(t *testing.T) {
	for _, s := range settings() {
		if s.text == "" || strings.Count(s.text, "`")%2 != 0 {
			t.Errorf("%v %s: %q", s.doc, s.path, s.text)
		}
	}
}

// allFlags are the flags as a command has them.
func allFlags(f *Flags) *pflag.FlagSet {
	set := pflag.NewFlagSet("portald", pflag.ContinueOnError)
	for _, s := range f.Sections() {
		set.AddFlagSet(s.Flags)
	}
	return set
}

func TestEveryFlagOfKubeProxyIsThere(t *testing.T) {
	const names = `config write-config-to cleanup init-only feature-gates kubeconfig master kube-api-content-type
		kube-api-burst kube-api-qps hostname-override bind-address healthz-bind-address metrics-bind-address
		bind-address-hard-fail profiling show-hidden-metrics-for-version proxy-mode iptables-masquerade-bit masquerade-all
		iptables-localhost-nodeports iptables-sync-period iptables-min-sync-period ipvs-sync-period ipvs-min-sync-period
		ipvs-scheduler ipvs-exclude-cidrs ipvs-strict-arp ipvs-tcp-timeout ipvs-tcpfin-timeout ipvs-udp-timeout
		detect-local-mode pod-bridge-interface pod-interface-name-prefix cluster-cidr nodeport-addresses oom-score-adj
		conntrack-max-per-core conntrack-min conntrack-tcp-timeout-established conntrack-tcp-timeout-close-wait
		conntrack-tcp-be-liberal conntrack-udp-timeout conntrack-udp-timeout-stream config-sync-period healthz-port
		metrics-port v vmodule logging-format log-flush-frequency log-json-split-stream log-json-info-buffer-size
		log-text-split-stream log-text-info-buffer-size windows-service source-vip network-name enable-dsr
		root-hnsendpoint-name forward-healthcheck-vip udp-timeout proxy-port-range`
	set := allFlags(NewFlags())
	for name := range strings.FieldsSeq(names) {
		if set.Lookup(name) == nil {
			t.Errorf("--%s is missing", name)
		}
	}
	if v := set.ShorthandLookup("v"); v == nil || v.Name != "v" {
		t.Error("-v is missing")
	}
}

// The flags of cleanup are a part of all flags, and the same.
func TestHostSections(t *testing.T) {
	f := NewFlags()
	names := map[string]bool{}
	for _, s := range f.HostSections() {
		s.Flags.VisitAll(func(flag *pflag.Flag) { names[flag.Name] = true })
	}
	want := []string{
		"iptables-variant", "log-format", "log-level", "logging-format", "proxy-port-range", "service-proxy-name", "v",
	}
	if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
