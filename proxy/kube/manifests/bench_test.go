package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"
	"sigs.k8s.io/yaml"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/dirwatch"
	"github.com/portald/portald/proxy/kube/translate"
)

// manyServices writes n Services, each with a slice of three endpoints, as one List (JSON or YAML) or one file each.
func manyServices(tb testing.TB, n int, layout string) string {
	tb.Helper()
	var items []json.RawMessage
	for i := range n {
		svc := fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s%d","namespace":"load",`+
			`"creationTimestamp":"2026-11-21T12:52:05Z","labels":{"app":"s%d"},"resourceVersion":"%d","uid":"9a777633-4950-4f5c-bacf-8e99c1babb16"},`+
			`"spec":{"clusterIP":"10.%d.%d.%d","clusterIPs":["10.%d.%d.%d"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],`+
			`"ipFamilyPolicy":"SingleStack","ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":8080}],"selector":{"app":"s%d"},`+
			`"sessionAffinity":"None","type":"ClusterIP"},"status":{"loadBalancer":{}}}`,
			i, i, i, 96+i>>16, i>>8&255, i&255, 96+i>>16, i>>8&255, i&255, i)
		var endpoints []json.RawMessage
		for e := range 3 {
			endpoints = append(endpoints, fmt.Appendf(nil,
				`{"addresses":["10.24%d.%d.%d"],"conditions":{"ready":true,"serving":true,"terminating":false},`+
					`"nodeName":"n%d","targetRef":{"kind":"Pod","name":"s%d-76989858-%d","namespace":"load","uid":"b2ea7767-2a5e-4a0c-ba6e-d9093000c546"},"zone":"z%d"}`,
				4+e, i>>8&255, i&255, e, i, e, e))
		}
		list, _ := json.Marshal(endpoints)
		slice := fmt.Sprintf(`{"addressType":"IPv4","apiVersion":"discovery.k8s.io/v1","endpoints":%s,"kind":"EndpointSlice",`+
			`"metadata":{"creationTimestamp":"2026-11-21T12:52:05Z","generateName":"s%d-","generation":14,`+
			`"labels":{"endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io","kubernetes.io/service-name":"s%d"},`+
			`"name":"s%d-b5672","namespace":"load","ownerReferences":[{"apiVersion":"v1","blockOwnerDeletion":true,"controller":true,"kind":"Service","name":"s%d","uid":"422dd999-02d4-4aab-9a9d-dcab3f7fe723"}]},`+
			`"ports":[{"name":"http","port":8080,"protocol":"TCP"}]}`, list, i, i, i, i)
		items = append(items, json.RawMessage(svc), json.RawMessage(slice))
	}
	dir := tb.TempDir()
	switch layout {
	case "files":
		for i := 0; i < len(items); i += 2 {
			path := filepath.Join(dir, fmt.Sprintf("s%d.yaml", i/2))
			check(tb, os.WriteFile(path, bytes.Join([][]byte{toYAML(tb, items[i]), toYAML(tb, items[i+1])}, []byte("---\n")),
				0o644))
		}
		return dir
	case "docs.yaml":
		var out bytes.Buffer
		for _, item := range items {
			out.WriteString("---\n")
			out.Write(toYAML(tb, item))
		}
		check(tb, os.WriteFile(filepath.Join(dir, layout), out.Bytes(), 0o644))
	case "list.yaml":
		var out bytes.Buffer
		out.WriteString("apiVersion: v1\nitems:\n")
		for _, item := range items {
			one, err := json.Marshal([]json.RawMessage{item})
			check(tb, err)
			out.Write(toYAML(tb, one))
		}
		out.WriteString("kind: List\nmetadata:\n  resourceVersion: \"\"\n")
		check(tb, os.WriteFile(filepath.Join(dir, layout), out.Bytes(), 0o644))
	default:
		text, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "items": items, "kind": "List"}, "", "    ")
		check(tb, err)
		check(tb, os.WriteFile(filepath.Join(dir, layout), text, 0o644))
	}
	return filepath.Join(dir, layout)
}

func toYAML(tb testing.TB, text []byte) []byte {
	out, err := yaml.JSONToYAML(text)
	check(tb, err)
	return out
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func quiet() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// loaded returns manifests that have read path once, and are not followed.
func loaded(tb testing.TB, path string) (*Source, *service.Store) {
	store := service.NewStore()
	m := New([]string{path}, translate.NewCache(store, translate.Options{NodeName: "n1"}, quiet()), quiet())
	check(tb, m.open())
	files, err := m.stale()
	check(tb, err)
	m.update(readings(files))
	return m, store
}

func BenchmarkFirstLoad(b *testing.B) {
	for _, layout := range []string{"list.json", "list.yaml", "docs.yaml", "files"} {
		b.Run(layout, func(b *testing.B) {
			path := manyServices(b, 10000, layout)
			for b.Loop() {
				if _, store := loaded(b, path); store.Pending() != 10000 {
					b.Fatal("not all loaded:", store.Pending())
				}
			}
		})
	}
}

// One Service of many changes: in its own file, and in a List of all.
func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		for _, layout := range []string{"files", "list.yaml"} {
			b.Run(fmt.Sprintf("%s/%d", layout, n), func(b *testing.B) {
				path := manyServices(b, n, layout)
				m, store := loaded(b, path)
				store.Take()
				if layout == "files" {
					path = filepath.Join(path, "s7.yaml")
				}
				text, err := os.ReadFile(path)
				check(b, err)
				n := dirwatch.New(nil)
				b.Cleanup(n.Close)
				for i := 0; b.Loop(); i++ {
					to := fmt.Appendf(nil, "- 10.244.%d.7", 1+i%2)
					check(b, os.WriteFile(path, bytes.Replace(text, []byte("- 10.244.0.7"), to, 1), 0o644))
					m.readChanges(pending{files: map[string]*location{path: m.locations[0]}}, n)
					if changes, _ := store.Take(); len(changes) != 1 {
						b.Fatal("change not seen")
					}
				}
			})
		}
	}
}
