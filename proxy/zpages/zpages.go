package zpages

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/proxy/httpserver"
	"github.com/portald/portald/proxy/metrics"
)

// program is the name under which the pages show this program.
const program = "portald"

// pageGroup is the API group of the pages of Kubernetes' programs that show flags and status; kube-proxy's library for
// them is part of the API server, and too large to link.
const pageGroup = "config.k8s.io"

// flagsPage is config.k8s.io's Flagz: the fields of v1alpha1 and v1beta1 are the same.
type flagsPage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Flags             map[string]string `json:"flags"`
}

// statusPage is Statusz of the same group.
type statusPage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	StartTime         metav1.Time `json:"startTime"`
	UptimeSeconds     int64       `json:"uptimeSeconds"`
	GoVersion         string      `json:"goVersion"`
	BinaryVersion     string      `json:"binaryVersion"`
	EmulationVersion  string      `json:"emulationVersion,omitempty"` // the Kubernetes that this program is of
	Paths             []string    `json:"paths"`
}

func flagz(flags map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		writePage(w, r, "Flagz", func() string {
			var b strings.Builder
			for _, name := range slices.Sorted(maps.Keys(flags)) {
				fmt.Fprintf(&b, "%s=%s\n", name, flags[name])
			}
			return b.String()
		}, func(kind metav1.TypeMeta) any {
			return flagsPage{kind, metav1.ObjectMeta{Name: program}, flags}
		})
	}
}

func statusz(began time.Time, paths []string) http.HandlerFunc {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	_, major, minor := metrics.KubernetesRelease(info.Deps)
	page := statusPage{
		ObjectMeta: metav1.ObjectMeta{Name: program}, StartTime: metav1.NewTime(began), GoVersion: runtime.Version(),
		BinaryVersion: info.Main.Version, EmulationVersion: strings.Trim(major+"."+minor, "."), Paths: folders(paths),
	}
	return func(w http.ResponseWriter, r *http.Request) {
		page := page
		page.UptimeSeconds = int64(time.Since(began).Seconds())
		writePage(w, r, "Statusz", func() string {
			up := time.Duration(page.UptimeSeconds) * time.Second
			return fmt.Sprintf("Started: %s\nUp: %v\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
				began.UTC().Format(time.RFC3339), up, page.GoVersion, page.BinaryVersion, page.EmulationVersion,
				strings.Join(page.Paths, " "))
		}, func(kind metav1.TypeMeta) any {
			page.TypeMeta = kind
			return page
		})
	}
}

// folders are the first parts of paths.
func folders(paths []string) (out []string) {
	for _, p := range paths {
		first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		out = append(out, "/"+first)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// writePage responds with text, or with the object that the request accepts.
func writePage(
	w http.ResponseWriter, r *http.Request, kind string, text func() string, object func(metav1.TypeMeta) any,
) {
	contentType, version, ok := acceptable(r.Header.Get("Accept"), kind)
	switch {
	case !ok:
		httpserver.Text(w, http.StatusNotAcceptable, fmt.Sprintf("only text/plain, and application/json or application/yaml "+
			"with ;as=%s;v=v1beta1;g=%s, can be accepted here\n", kind, pageGroup))
	case version == "":
		httpserver.Text(w, http.StatusOK, fmt.Sprintf("%s %s: to be read by people, the form may change\n\n%s", program,
			strings.ToLower(kind), text()))
	default:
		if version == "v1alpha1" {
			w.Header().Set("Warning", `299 - "v1alpha1 is deprecated: ask for v1beta1"`)
		}
		body, err := json.Marshal(object(metav1.TypeMeta{Kind: kind, APIVersion: pageGroup + "/" + version}))
		if err != nil {
			httpserver.Text(w, http.StatusInternalServerError, fmt.Sprintf("write %s: %v\n", kind, err))
			return
		}
		httpserver.WriteHeader(w, contentType, http.StatusOK)
		_, _ = w.Write(append(body, '\n')) // JSON is YAML too
	}
}

// acceptable is the first of the media types of a header that can be answered; with a version, an object is wanted.
func acceptable(header, kind string) (contentType, version string, ok bool) {
	if strings.TrimSpace(header) == "" {
		return "text/plain", "", true
	}
	for clause := range strings.SplitSeq(header, ",") {
		media, with, err := mime.ParseMediaType(clause)
		if err != nil || with["q"] == "0" {
			continue
		}
		as, v := with["as"], with["v"]
		known := as == kind && with["g"] == pageGroup && (v == "v1alpha1" || v == "v1beta1")
		switch media {
		case "text/plain", "text/*", "*/*":
			if as == "" {
				return "text/plain", "", true
			}
		case "application/json", "application/yaml":
			if known {
				return media, v, true
			}
		}
	}
	return "", "", false
}
