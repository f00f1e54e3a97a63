package manifests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/proxy/kube/translate"
)

const (
	svcA     = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n"
	svcAJSON = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"clusterIP":"10.96.0.1","ports":[{"port":80}]}}`
)

// read returns what a text holds, a line for each object, warning or error.
func read(text string) (out []string) {
	r := reading{file: &file{path: "f"}, fragments: split([]byte(text))}
	r.digests = make([]digest, len(r.fragments))
	r.results = make([][]decoded, len(r.fragments))
	decodeNew([]*reading{&r}, translate.Options{})
	r.each(func(d decoded, place string) {
		place = strings.TrimPrefix(place, "f: ")
		for _, w := range d.warnings {
			out = append(out, place+": warning: "+w)
		}
		switch {
		case d.err != nil:
			out = append(out, place+": "+d.err.Error())
		case d.kept != nil:
			out = append(out, fmt.Sprintf("%s: %s", place, d.key))
		case d.other != "":
			out = append(out, place+": other "+d.other)
		}
	})
	return out
}

// kinds are documents of the kinds, each "apiVersion kind".
func kinds(of ...string) string {
	var out strings.Builder
	for _, kind := range of {
		version, kind, _ := strings.Cut(kind, " ")
		fmt.Fprintf(&out, "apiVersion: %s\nkind: %s\nmetadata: {name: a}\n---\n", version, kind)
	}
	return out.String()
}

func TestDecode(t *testing.T) {
	item := func(indent, text string) string {
		return indent + "- " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+indent+"  ") + "\n"
	}
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"one document", svcA, []string{"document 1 (line 1): service default/a"}},
		{"byte order mark and CRLF", "\ufeff" + strings.ReplaceAll(svcA, "\n", "\r\n"),
			[]string{"document 1 (line 1): service default/a"}},
		{
			"documents, comments and a directive",
			"# note\n%YAML 1.2\n---\n" + svcA + "...\n---\n# nothing\n--- # second\n" + svcA,
			[]string{"document 1 (line 4): service default/a", "document 2 (line 12): service default/a"},
		},
		{"JSON", svcAJSON, []string{"document 1 (line 1): service default/a"}},
		{"JSON one after the other", svcAJSON + "\n" + svcAJSON + "\n---\n" + svcAJSON, []string{
			"document 1 (line 1): service default/a", "document 2 (line 2): service default/a",
			"document 3 (line 4): service default/a",
		}},
		{"a YAML flow mapping", "{apiVersion: v1, kind: Node, metadata: {name: 'n}'}}", []string{
			"document 1 (line 1): metadata.name: \"n}\" of a Node: a lowercase RFC 1123 subdomain",
		}},
		{"JSON with a trailing comma", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},}`,
			[]string{"document 1 (line 1): node n"}},
		{
			"a List as kubectl writes it",
			"apiVersion: v1\nitems:\n" + item("", svcA) + item("", svcA) + "kind: List\nmetadata:\n  resourceVersion: \"\"\n",
			[]string{"document 1, item 1 (line 3): service default/a", "document 1, item 2 (line 7): service default/a"},
		},
		{
			"an indented List of typed items",
			"apiVersion: v1\nkind: ServiceList\nitems:\n\n# the only one\n" + item("  ", "metadata: {name: a, namespace: b}"),
			[]string{"document 1, item 1 (line 6): service b/a"},
		},
		{
			"Lists in a List",
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ServiceList\n  items:\n  - metadata: {name: a}\n" +
				"  - metadata: {name: b}\n- {apiVersion: v1, kind: List, items: [" + svcAJSON + "]}\n",
			[]string{
				"document 1, item 1 (line 4): service default/a", "document 1, item 1 (line 4): service default/b",
				"document 1, item 2 (line 9): service default/a",
			},
		},
		{
			"a List in a JSON List", `{"kind":"List","apiVersion":"v1","items":[{"kind":"List","apiVersion":"v1","items":[` +
				svcAJSON + "]}]}", []string{"document 1, item 1 (line 1): service default/a"},
		},
		{
			"a List whose end is indented less", "  apiVersion: v1\n  items:\n  - " + svcAJSON + "\nkind: List\n",
			[]string{"document 1 (line 1): yaml: line 4: did not find expected <document start>: the document ends above; " +
				"indent this line as those, or write --- between two documents"},
		},
		{
			"kinds of add-ons that end in List", "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}\n",
			[]string{"document 1 (line 1): other AllowList.example.com"},
		},
		{
			"a List in flow style", "{apiVersion: v1, kind: List, items: [" + svcAJSON + ", " + svcAJSON + "]}",
			[]string{"document 1, item 1 (line 1): service default/a", "document 1, item 2 (line 1): service default/a"},
		},
		{
			"a JSON List", `{"apiVersion":"discovery.k8s.io/v1","items":[
  {"metadata":{"name":"x","labels":{"kubernetes.io/service-name":"a"}}},
  {"metadata":{"name":"y"}}],"kind":"EndpointSliceList"}`,
			[]string{
				"document 1, item 1 (line 2): endpointslice default/x",
				"document 1, item 2 (line 3): warning: endpointslice default/y: metadata.labels: without " +
					"kubernetes.io/service-name it belongs to no Service",
				"document 1, item 2 (line 3): endpointslice default/y",
			},
		},
		{
			"JSON cut short", svcAJSON + "\n" + `{"apiVersion":"v1","items":[` + svcAJSON + `,{"apiVersion":"v1"`,
			[]string{"document 1 (line 1): service default/a", "document 2 (line 2): the file ends inside it"},
		},
		{
			"a kind that is there twice, before and behind the items", "apiVersion: v1\nkind: List\nitems:\n- 0\nkind:",
			[]string{
				`document 1 (line 1): warning: line 5: key "kind" is there twice; the last one is used`,
				"document 1 (line 1): kind: is missing; write one, such as Service",
			},
		},
		{
			"a separator with a document on its line", svcA + "--- {a: b}\n---\n" + svcA,
			[]string{
				"document 1 (line 1): service default/a", "document 2 (line 5): kind: is missing; write one, such as Service",
				"document 3 (line 7): service default/a",
			},
		},
		{"JSON with a comment behind it", svcAJSON + "\n# the end\n", []string{"document 1 (line 1): service default/a"}},
		{"JSON and something else", svcAJSON + " 7", []string{
			"document 1 (line 1): service default/a", "document 2 (line 1): the document: is a number; write a mapping",
		}},
		{
			"a List that lacks its end, where kubectl writes its kind", "apiVersion: v1\nitems:\n" + item("", svcA),
			[]string{"document 1 (line 1): kind: is missing; write one, such as Service"},
		},
		{"an empty List", "apiVersion: v1\nkind: List\nitems: []\n", nil},
		{
			"a quoted string that looks like items",
			"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a, annotations: {x: " +
				"\"one\n- two\"}}}\n" + item("", svcA),
			[]string{"document 1, item 1 (line 4): service default/a", "document 1, item 2 (line 6): service default/a"},
		},
		{
			"an alias to another item",
			"apiVersion: v1\nkind: ServiceList\nitems:\n- metadata: {name: a}\n  spec: &s {clusterIP: 10.96.0.1}\n- " +
				"metadata: {name: b}\n  spec: *s\n",
			[]string{"document 1, item 1 (line 1): service default/a", "document 1, item 2 (line 1): service default/b"},
		},
		{
			"items inside of a string", "apiVersion: v1\nkind: List\nnote: \"\nitems:\n- kind: Service\n\"\n",
			[]string{"document 1 (line 1): warning: items: is missing; the List is empty"},
		},
		{
			"a List that is no YAML",
			"apiVersion: v1\nitems:\n" + item("", svcA) + "- kind: [\n" + item("", svcA) + "kind: List\n",
			[]string{"document 1 (line 1): yaml: line 8: did not find expected node content"},
		},
		{
			"a broken document between good ones", svcA + "---\na: b\n c: d\n---\n" + svcA,
			[]string{
				"document 1 (line 1): service default/a",
				"document 2 (line 6): yaml: line 7: mapping values are not allowed in this context",
				"document 3 (line 9): service default/a",
			},
		},
		{"a field of the wrong type", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: http}]}\n",
			[]string{
				"document 1 (line 1): service default/a: spec.ports.port: is a string; write a number",
			}},
		{"an unknown field", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIp: 10.96.0.1}\n", []string{
			"document 1 (line 1): warning: service default/a: unknown field \"spec.clusterIp\"; it has no effect",
			"document 1 (line 1): service default/a",
		}},
		{"a key twice", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: NodePort, type: ClusterIP}\n",
			[]string{
				`document 1 (line 1): warning: line 4: key "type" is there twice; the last one is used`,
				"document 1 (line 1): service default/a",
			}},
		{
			"kinds of Kubernetes, its add-ons and others",
			kinds("v1 Endpoints", "networking.k8s.io/v9 Ingress", "v1 PodList", "gateway.networking.k8s.io/v1 HTTPRoute",
				"serving.knative.dev/v1 Service"),
			[]string{
				"document 1 (line 1): other Endpoints", "document 2 (line 5): other Ingress.networking.k8s.io",
				"document 3 (line 9): other PodList",
				"document 4 (line 13): other HTTPRoute.gateway.networking.k8s.io",
				"document 5 (line 17): other Service.serving.knative.dev",
			},
		},
		{
			"kinds that nobody knows", kinds("v1 Servce", "discovery.k8s.io/v1 Endpointslice",
				"discovry.k8s.io/v1 EndpointSlice", "v2 Service"),
			[]string{
				`document 1 (line 1): kind: no "Servce" is in apiVersion "v1" of Kubernetes; check the spelling of both`,
				`document 2 (line 5): kind: no "Endpointslice" is in apiVersion "discovery.k8s.io/v1" of Kubernetes; check the spelling of both`,
				`document 3 (line 9): kind: no "EndpointSlice" is in apiVersion "discovry.k8s.io/v1" of Kubernetes; check the spelling of both`,
				`document 4 (line 13): apiVersion: "v2" of kind Service is not read; convert it to v1`,
			},
		},
		{"no kind", "apiVersion: v1\nmetadata: {name: a}\n",
			[]string{"document 1 (line 1): kind: is missing; write one, such as Service"}},
		{"no version", "kind: Service\nmetadata: {name: a}\n",
			[]string{"document 1 (line 1): apiVersion: is missing on a Service; write one, such as v1"}},
		{"an old version", "apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\nmetadata: {name: a}\n", []string{
			`document 1 (line 1): apiVersion: "discovery.k8s.io/v1beta1" of kind EndpointSlice is not read; convert it to discovery.k8s.io/v1`,
		}},
		{"no name", "apiVersion: v1\nkind: Service\n",
			[]string{"document 1 (line 1): metadata.name: is missing on a Service; write one"}},
		{"a bad namespace", "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: A_B}\n", []string{
			`document 1 (line 1): metadata.namespace: "A_B" of Service a: a lowercase RFC 1123 label`,
		}},
		{"a scalar", "hello\n", []string{"document 1 (line 1): the document: is a string; write a mapping"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := read(c.text)
			for i, line := range got {
				if line, _, cut := strings.Cut(line, " must consist of"); cut {
					got[i] = line // the rest is the API's own text
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Pods are read where clients are to be named, and left out elsewhere.
func TestDecodePods(t *testing.T) {
	text := split([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n"))[0]
	if d := decode(text, false); len(d) != 1 || d[0].other != "Pod" || d[0].object != nil {
		t.Errorf("a pod that nobody asked for: %+v", d)
	}
	d := decodeTrimmed(text, translate.Options{ClientPods: true})
	if len(d) != 1 || d[0].err != nil || d[0].kept == nil || d[0].key.String() != "pod shop/web" {
		t.Errorf("%+v", d)
	}
}
