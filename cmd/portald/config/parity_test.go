package config

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/health"
	"github.com/portald/portald/proxy/httpserver"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/zpages"
)

const (
	parityManual = "../../../docs/parity.md"
	ofKubeProxy  = "../testdata/kube-proxy.json" // made by integration/kubetest/surface
)

// surface has the flags, fields, metrics and paths that kube-proxy shows to users.
type surface struct {
	Flags    []surfaceFlag
	Fields   []surfaceFlag
	Metrics  []surfaceMetric
	Features []surfaceFeature
	Paths    []string
}

type surfaceFlag struct{ Name, Default string }

type surfaceMetric struct {
	Name   string
	Labels []string
}

type surfaceFeature struct {
	Name, Stage string
	On          bool
}

// parity compares kube-proxy's surface with portald's, and makes the tables of the manual.
type parity struct {
	t       *testing.T
	out     strings.Builder
	remarks map[string]remark
	used    map[string]bool
}

// Words of the tables.
const (
	same     = "same"
	differs  = "differs"
	noEffect = "no effect"
	not      = "not"
)

// row adds a row, with the remark to the thing itself or to another. Has is whether portald has the thing, and unlike
// why it is not the same as kube-proxy's, empty if nothing shows that; idle is why portald accepts it and does
// nothing.
func (p *parity) row(kind, name string, has bool, unlike, idle string, other ...string) {
	p.t.Helper()
	key := kind + " " + name
	if _, own := p.remarks[key]; !own && len(other) > 0 {
		key = other[0]
	}
	note := p.remarks[key]
	p.used[key] = true
	word := same
	switch {
	case !has:
		word = not
		if note.word != not {
			p.t.Errorf("kube-proxy has the %s %s, portald does not, and no remark says why", kind, name)
		}
	case note.word == not:
		p.t.Errorf("a remark says that portald does not have the %s %s, but it does", kind, name)
	case idle != "":
		word, note.text = noEffect, strings.Trim(idle+"; "+note.text, "; ")
	case note == remark{differs, ""}: // by its default
		word, note.text = differs, unlike
		if unlike == "" {
			p.t.Errorf("a remark says that the default of the %s %s differs, but it does not", kind, name)
		}
	case note.word == differs:
		word = differs
	case unlike != "":
		p.t.Errorf("the %s %s: %s, and no remark says so", kind, name, unlike)
	}
	server, path, ok := strings.Cut(name, " ")
	shown := "`" + name + "`"
	if ok {
		shown = "`" + path + "` of `" + server + "`"
	}
	fmt.Fprintf(&p.out, "| %s | %s | %s |\n", shown, word, note.text)
}

func (p *parity) table(title, first string) {
	fmt.Fprintf(&p.out, "\n## %s\n\n| %s | portald | how |\n|---|---|---|\n", title, first)
}

// docs/parity.md is made from kube-proxy's own packages, and from what portald has. UPDATE_GOLDEN=1 writes it again.
func TestParity(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the manual has the metrics of Linux")
	}
	text, err := os.ReadFile(ofKubeProxy)
	check(t, err)
	var theirs surface
	check(t, json.Unmarshal(text, &theirs))
	p := &parity{t: t, remarks: remarks(), used: map[string]bool{}}
	p.out.WriteString(parityHead)
	p.flags(theirs.Flags)
	p.fields(theirs.Fields)
	p.metrics(theirs.Metrics)
	p.features(theirs.Features)
	p.paths(theirs.Paths)
	for _, key := range slices.Sorted(maps.Keys(p.remarks)) {
		if _, ok := p.used[key]; !ok {
			t.Errorf("a remark is about the %s, which kube-proxy does not have", key)
		}
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		check(t, os.WriteFile(parityManual, []byte(p.out.String()), 0o644))
	}
	is, err := os.ReadFile(parityManual)
	check(t, err)
	if d := gocmp.Diff(p.out.String(), string(is)); d != "" {
		t.Errorf("%s is not what portald has: UPDATE_GOLDEN=1 go test ./cmd/portald/config (-want +got)\n%s",
			parityManual, d)
	}
}

func (p *parity) flags(all []surfaceFlag) {
	p.table("Flags", "flag")
	ours := newFlags("linux")
	for _, f := range all {
		unlike, idle := "", ""
		own := ours.lookup(f.Name)
		if own != nil && own.DefValue != f.Default {
			unlike = unlikeDefaults(own.DefValue, f.Default)
		}
		var field []string
		for _, s := range settings() {
			if s.flag != f.Name || s.doc != kubeProxy {
				continue
			}
			field = append(field, "field "+s.path)
			if s.effect == ignored {
				idle = s.plainText()
			}
		}
		p.row("flag", f.Name, own != nil, unlike, idle, field...)
	}
}

func (p *parity) fields(all []surfaceFlag) {
	p.table("Fields of KubeProxyConfiguration", "field")
	plain := documents{system: "linux"}
	plain.setDefaults()
	for _, f := range all {
		at := slices.IndexFunc(settings(), func(s setting) bool { return s.doc == kubeProxy && s.path == f.Name })
		unlike, idle := "", ""
		if at >= 0 {
			s := settings()[at]
			if own := defaultInJSON(p.t, plain.at(s)); own != f.Default {
				unlike = unlikeDefaults(own, f.Default)
			}
			if s.effect == ignored {
				idle = s.plainText()
			}
		}
		p.row("field", f.Name, at >= 0, unlike, idle)
	}
}

// defaultInJSON is a value in JSON, empty for the zero of its type, as in the list of kube-proxy's fields.
func defaultInJSON(t *testing.T, field reflect.Value) string {
	t.Helper()
	if !field.IsValid() || field.Kind() == reflect.Pointer && field.IsNil() {
		return ""
	}
	text, err := json.Marshal(field.Interface())
	check(t, err)
	if slices.Contains([]string{"null", "0", "false", "{}", "[]", `""`, `"0"`, `"0s"`}, string(text)) {
		return ""
	}
	return string(text)
}

func unlikeDefaults(ours, theirs string) string {
	shown := func(s string) string { return cmp.Or(strings.Trim(s, `"`), "none") }
	return fmt.Sprintf("the default is %s, in kube-proxy %s", shown(ours), shown(theirs))
}

func (p *parity) metrics(all []surfaceMetric) {
	p.table("Metrics", "metric")
	ours := exported(p.t)
	for _, m := range all {
		labels, has := ours[m.Name]
		unlike := ""
		slices.Sort(m.Labels)
		if has && !slices.Equal(labels, m.Labels) {
			unlike = fmt.Sprintf("it has the labels %v, kube-proxy's %v", labels, m.Labels)
		}
		p.row("metric", m.Name, has, unlike, "")
	}
}

// exported are the metrics of portald, with their labels.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	// client-go registers its metrics at the first client and the first queue.
	clientmetrics.EnsureRegistered()
	workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "parity"}).ShutDown()
	libraries := make(chan *prometheus.Desc)
	go func() {
		legacyregistry.Registerer().(prometheus.Collector).Describe(libraries)
		close(libraries)
	}()
	form := regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)
	for d := range libraries {
		found := form.FindStringSubmatch(d.String())
		if out[found[1]] = nil; found[2] != "" {
			out[found[1]] = strings.Split(found[2], ",")
			slices.Sort(out[found[1]])
		}
	}
	m := used()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	series := regexp.MustCompile(`(?m)^([a-z_]+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? [^ ]+$`)
	label := regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
	for _, found := range series.FindAllStringSubmatch(w.Body.String(), -1) {
		labels := map[string]bool{}
		for _, l := range label.FindAllStringSubmatch(found[2], -1) {
			labels[l[1]] = l[1] != "le" && l[1] != "quantile"
		}
		maps.DeleteFunc(labels, func(_ string, counts bool) bool { return !counts })
		out[found[1]] = slices.Sorted(maps.Keys(labels))
	}
	return out
}

// used are metrics of which those by kube-proxy's names have series.
func used() *metrics.Metrics {
	m, now := metrics.NewMetrics(metrics.DefaultLimits(), "IPv4", "IPv6"), time.Now()
	none := func() int { return 0 }
	m.WatchChanges(func() metrics.Changes { return metrics.Changes{} })
	m.WatchDataPath(metrics.DataPath{
		Stats: func() (_ splice.Stats) { return }, BusiestEndpoint: none, Ejected: none, PortSharers: none,
		BudgetExhausted: func() uint64 { return 0 }, ProxyPortsInUse: func(inet.Protocol) int { return 0 },
		LoopbackListeners: func(inet.Family) (int64, uint64) { return 0, 0 },
	})
	m.WatchInvalidDropped(func() (uint64, bool) { return 0, true })
	_, _ = m.CountDeletedFlows(func(context.Context, inet.FlowQuery, func(inet.Flow) bool) (int, error) {
		return 0, nil
	})(context.Background(), inet.FlowQuery{}, nil)
	m.Queued(now)
	m.Synced(true, now, now)
	m.Synced(false, now, now)
	m.Programmed([]time.Time{now.Add(time.Hour)}, now)
	m.Rules("IPv4", "nat", 1)
	m.RulesLast("IPv4", "nat", 1)
	h := health.New(time.Minute, m)
	for _, answer := range []http.HandlerFunc{h.Healthz, h.Livez} {
		answer(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	metrics.ShowFeatures(metrics.Features{})
	return m
}

func (p *parity) features(all []surfaceFeature) {
	p.table("Features, in `kubernetes_feature_enabled`", "feature")
	w := httptest.NewRecorder()
	used().Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	line := regexp.MustCompile(`(?m)^kubernetes_feature_enabled\{name="(\w+)",stage="(\w*)"\} ([01])$`)
	ours := map[string][]string{}
	for _, found := range line.FindAllStringSubmatch(w.Body.String(), -1) {
		ours[found[1]] = found[2:]
	}
	for _, f := range all {
		own, has := ours[f.Name]
		unlike := ""
		if has && (own[0] != f.Stage || (own[1] == "1") != f.On) {
			unlike = fmt.Sprintf("it is %v, kube-proxy's %v", own, f)
		}
		p.row("feature", f.Name, has, unlike, "")
	}
}

// paths asks running servers.
func (p *parity) paths(all []string) {
	p.table("HTTP", "path")
	at := map[string]string{}
	m := metrics.NewMetrics(metrics.DefaultLimits(), "IPv4")
	serve := func(name string, server func(httpserver.Options) *httpserver.Server) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(p.t, err)
		at[name] = "http://" + l.Addr().String()
		s := server(httpserver.Options{Name: name, Address: "here", Log: logrus.New(),
			Listen: func(context.Context, string, string) (net.Listener, error) { return l, nil }})
		ctx, stop := context.WithCancel(p.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		p.t.Cleanup(func() {
			stop()
			check(p.t, <-ended)
		})
	}
	serve("healthzBindAddress", func(o httpserver.Options) *httpserver.Server {
		return health.NewServer(o, health.New(time.Minute, m))
	})
	serve("metricsBindAddress", func(o httpserver.Options) *httpserver.Server {
		return zpages.NewServer(o, m, zpages.Pages{Mode: "userspace", Profiling: true, Flags: NewFlags().Values(),
			Config:       func() map[string]any { return nil },
			SetVerbosity: func(string) error { return nil }})
	})
	for _, one := range all {
		server, path, _ := strings.Cut(one, " ")
		answer, err := http.Get(cmp.Or(at[server], "http://no-such-server") + path)
		check(p.t, err)
		check(p.t, answer.Body.Close())
		p.row("path", one, answer.StatusCode != http.StatusNotFound, "", "")
	}
}
