// Package surface lists what kube-proxy shows to users: its flags, fields of the configuration, metrics, features and
// HTTP paths, by name, as its own packages have them.
package surface

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	pathpkg "path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/workqueue"
	_ "k8s.io/component-base/logs/json/register" // what kube-proxy's main package imports, as the next two
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kube-proxy/config/v1alpha1"
	"k8s.io/kubernetes/cmd/kube-proxy/app"
	proxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	"k8s.io/kubernetes/pkg/proxy/apis/config/scheme"
	proxymetrics "k8s.io/kubernetes/pkg/proxy/metrics"
)

// Surface is all of it, each list in order.
type Surface struct {
	Flags    []Flag    `json:"flags"`
	Fields   []Field   `json:"fields"` // of KubeProxyConfiguration
	Metrics  []Metric  `json:"metrics"`
	Features []Feature `json:"features"` // those that kube-proxy asks its gates for
	Paths    []string  `json:"paths"`    // behind the field that says where: "metricsBindAddress /proxyMode"
}

// Flag is a flag with its default.
type Flag struct {
	Name    string `json:"name"`
	Default string `json:"default,omitempty"`
}

// Field is a field, by path, with its default in JSON.
type Field struct {
	Name    string `json:"name"`
	Default string `json:"default,omitempty"` // empty: none, or the zero of its type
}

// Metric is a metric with its labels.
type Metric struct {
	Name   string   `json:"name"`
	Labels []string `json:"labels,omitempty"`
}

// Feature is a feature gate.
type Feature struct {
	Name  string `json:"name"`
	Stage string `json:"stage"`
	On    bool   `json:"on"`
}

// Flags are those of the command, on this system.
func Flags() (out []Flag) {
	app.NewProxyCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") { // of this test
			out = append(out, Flag{f.Name, f.DefValue})
		}
	})
	slices.SortFunc(out, func(a, b Flag) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Fields are the fields of the configuration.
func Fields() (out []Field, err error) {
	config := &v1alpha1.KubeProxyConfiguration{}
	scheme.Scheme.Default(config)
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	paths := fieldsOf("", reflect.TypeFor[v1alpha1.KubeProxyConfiguration]())
	slices.Sort(paths)
	for _, path := range paths {
		one, err := json.Marshal(at(all, path))
		if err != nil {
			return nil, err
		}
		out = append(out, Field{path, nonzero(string(one))})
	}
	return out, nil
}

// at is the value at a path; nil: there is none.
func at(fields map[string]any, path string) any {
	name, rest, deeper := strings.Cut(path, ".")
	if below, ok := fields[name].(map[string]any); ok && deeper {
		return at(below, rest)
	}
	return fields[name]
}

// nonzero is empty for the zeros of all types of fields.
func nonzero(value string) string {
	if slices.Contains([]string{"null", "0", "false", "{}", "[]", `""`, `"0"`, `"0s"`}, value) {
		return ""
	}
	return value
}

// fieldsOf are the paths below a type. One of a type that others define as a value, such as a duration, has none below.
func fieldsOf(path string, t reflect.Type) (out []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.NumField() == 0 || isValue(t) {
		return []string{path}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() || f.Type.Name() == "TypeMeta":
		case f.Anonymous || strings.Contains(options, "inline"):
			out = append(out, fieldsOf(path, f.Type)...)
		default:
			out = append(out, fieldsOf(strings.TrimPrefix(path+"."+cmp.Or(name, f.Name), "."), f.Type)...)
		}
	}
	return out
}

func isValue(t reflect.Type) bool {
	_, own := reflect.PointerTo(t).MethodByName("UnmarshalJSON")
	return own
}

// Metrics are kube-proxy's own in a mode with all of its features on, and those of libraries that tell of it. It may be
// called once in a process, since kube-proxy registers once.
func Metrics(mode string) ([]Metric, error) {
	if err := utilfeature.DefaultMutableFeatureGate.Set("AllAlpha=true,AllBeta=true"); err != nil {
		return nil, err
	}
	proxymetrics.RegisterMetrics(proxyconfig.ProxyMode(mode))
	useClientGo()
	registry, ok := legacyregistry.Registerer().(prometheus.Collector)
	if !ok {
		return nil, fmt.Errorf("the registry %T does not describe its metrics", legacyregistry.Registerer())
	}
	to := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(to)
		close(to)
	}()
	form := regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)
	var out []Metric
	for d := range to {
		found := form.FindStringSubmatch(d.String())
		if found == nil {
			return nil, fmt.Errorf("a metric describes itself as %s", d)
		}
		if m := (Metric{Name: found[1]}); !incidental(m.Name) {
			if found[2] != "" {
				m.Labels = strings.Split(found[2], ",")
			}
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b Metric) bool { return a.Name == b.Name }), nil
}

// useClientGo has client-go's metrics registered, which it does at the first client and the first queue.
func useClientGo() {
	clientmetrics.EnsureRegistered()
	workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "surface"}).ShutDown()
}

// ShowHidden does what --show-hidden-metrics-for-version does.
func ShowHidden() { metrics.SetShowHidden() }

// incidental tells whether a metric is of a library that kube-proxy links but does not use as what it measures: an API
// server, a controller. Those of Go's runtime depend on its version.
func incidental(name string) bool {
	for _, prefix := range []string{"kubeproxy_", "kubernetes_", "rest_client_", "process_", "workqueue_"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}

// Features are the gates that these files of kube-proxy name, whether they ask for them or hand them on.
func Features(files []string) (out []Feature, err error) {
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	names := map[string]bool{}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return nil, err
		}
		packages, called := packagesOfGates(tree), map[ast.Expr]bool{}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				called[n.Fun] = true // a function, which comes behind its call
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok && packages[of.Name] && !called[n] {
					names[n.Sel.Name] = true
				}
			}
			return true
		})
	}
	for feature, spec := range known {
		if names[string(feature)] {
			out = append(out, Feature{string(feature), string(spec.PreRelease), spec.Default})
		}
	}
	if len(out) != len(names) {
		return nil, fmt.Errorf("of the gates %v these are known: %v", names, out)
	}
	slices.SortFunc(out, func(a, b Feature) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// packagesOfGates are the names in a file of the packages that define gates.
func packagesOfGates(tree *ast.File) map[string]bool {
	out := map[string]bool{}
	for _, i := range tree.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if name := pathpkg.Base(path); name == "features" {
			if i.Name != nil {
				name = i.Name.Name
			}
			out[name] = true
		}
	}
	return out
}

// Paths are those that a file of kube-proxy serves by a name of its own or of a library, with the server before them.
// Handlers of libraries are known by the function that installs them.
func Paths(server, file string) (out []string, err error) {
	installed := map[string][]string{ // functions of the libraries, and the paths that they serve
		"healthz.InstallHandler":     {"/healthz"},
		"slis.SLIMetricsWithReset{}": {"/metrics/slis"},
		"routes.Profiling{}":         {"/debug/pprof/"},
		"routes.DebugFlags{}":        {"/debug/flags/v"},
		"configz.InstallHandler":     {"/configz"},
		"flagz.Install":              {"/flagz"},
		"statusz.Install":            {"/statusz"},
	}
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || err != nil {
			return err == nil
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch name := f.Sel.Name; {
		case (name == "Handle" || name == "HandleFunc") && len(call.Args) == 2:
			if text, ok := call.Args[0].(*ast.BasicLit); ok {
				path, _ := strconv.Unquote(text.Value)
				out = append(out, server+" "+path)
			}
		case name == "Install" || name == "InstallHandler":
			by := inWords(f)
			paths, known := installed[by]
			if !known {
				err = fmt.Errorf("%s: %s serves paths that are not known here", file, by)
			}
			for _, p := range paths {
				out = append(out, server+" "+p)
			}
		}
		return true
	})
	return out, err
}

// inWords is "pkg.Func", or "pkg.Type{}" of a method of a literal.
func inWords(f *ast.SelectorExpr) string {
	switch x := f.X.(type) {
	case *ast.Ident:
		return x.Name + "." + f.Sel.Name
	case *ast.CompositeLit:
		if t, ok := x.Type.(*ast.SelectorExpr); ok {
			return fmt.Sprint(t.X, ".", t.Sel.Name, "{}")
		}
	}
	return fmt.Sprintf("%T.%s", f.X, f.Sel.Name)
}
