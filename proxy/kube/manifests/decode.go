package manifests

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/portald/portald/proxy/kube/translate"
)

// decoded is the result of decoding one object of a file.
type decoded struct {
	item     int              // number in its list, if the fragment was a whole list
	key      translate.Key    // zero if the name is unknown
	object   metav1.Object    // nil if it is refused, or of a kind that is not read
	kept     translate.Object // what is stored of the object, once it is trimmed
	owner    translate.Key    // the Service of a slice, or of Endpoints; zero: of another kind, or none
	other    string           // the kind, if it is one that is not read
	warnings []string         // the object is served nevertheless
	err      error            // why it is refused
}

// header is the part of an object that identifies it, and the items of a list.
type header struct {
	typeMeta
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Items json.RawMessage `json:"items"`
}

// isList tells whether it is a list: kinds of add-ons that end in List are not without items.
func (h header) isList() bool { return h.Kind == kindList || h.typeMeta.isList() && h.Items != nil }

// decode returns the objects of a fragment: one, or the items of a list that was not split, or is an item; pods are
// read if asked for. The result is never empty.
func decode(f fragment, pods bool) []decoded {
	text, warnings, err := f.toJSON()
	if err != nil {
		return []decoded{{err: err}}
	}
	out := decodeAny(text, f.list, pods)
	out[0].warnings = slices.Concat(warnings, out[0].warnings)
	return out
}

// decodeTrimmed decodes a fragment and trims its objects.
func decodeTrimmed(f fragment, opts translate.Options) []decoded {
	out := decode(f, opts.ClientPods)
	for i := range out {
		if d := &out[i]; d.object != nil {
			d.kept, d.object = translate.Trim(d.object, opts), nil
		}
	}
	return out
}

// headerOf decodes the header of an object.
func headerOf(text []byte) (head header, err error) {
	err = plainError(kjson.UnmarshalCaseSensitivePreserveInts(text, &head))
	return head, err
}

// decodeAny decodes an object, or the items of a list, also of lists in it; list is the kind of the list around it. The
// result is never empty.
func decodeAny(text []byte, list typeMeta, pods bool) []decoded {
	head, err := headerOf(text)
	switch {
	case err != nil:
		return []decoded{{err: err}}
	case head.isList():
		return decodeList(head, pods)
	}
	return []decoded{decodeObject(text, head, list, pods)}
}

// decodeList decodes the items of a list. The result is never empty.
func decodeList(list header, pods bool) (out []decoded) {
	if list.Items == nil {
		return []decoded{{warnings: []string{"items: is missing; the List is empty"}}}
	}
	var items []json.RawMessage
	if err := json.Unmarshal(list.Items, &items); err != nil {
		return []decoded{{err: fmt.Errorf("items: %w", plainError(err))}}
	}
	for i, text := range items {
		for _, d := range decodeAny(text, list.typeMeta, pods) {
			d.item = i + 1
			out = append(out, d)
		}
	}
	if len(out) == 0 {
		return []decoded{{}}
	}
	return out
}

// decodeObject decodes one object; list is the kind of the list around it, whose items may omit theirs.
func decodeObject(text []byte, head header, list typeMeta, pods bool) (out decoded) {
	meta := head.typeMeta
	if meta.Kind == "" && list.Kind != kindList {
		meta = typeMeta{list.APIVersion, strings.TrimSuffix(list.Kind, "List")}
	}
	object, err := newObject(meta, pods)
	if err != nil {
		return decoded{key: anyKindKey(head.Metadata.Namespace, head.Metadata.Name), err: err}
	}
	if object == nil {
		out.other = schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind).GroupKind().String()
		if out.other == kindEndpoints {
			out.owner = serviceKey(head.Metadata.Namespace, head.Metadata.Name)
		}
		return out
	}
	if out.key, out.err = keyOf(translate.Kind(meta.Kind), head); out.err != nil {
		return out
	}
	strict, err := kjson.UnmarshalStrict(text, object)
	if err != nil {
		out.err = fmt.Errorf("%s: %w", out.key, plainError(err))
		return out
	}
	for _, w := range strict {
		out.warnings = append(out.warnings, fmt.Sprintf("%s: %s; it has no effect", out.key, w))
	}
	if out.key.Kind == translate.KindEndpointSlice {
		if svc := object.GetLabels()[discoveryv1.LabelServiceName]; svc != "" {
			out.owner = serviceKey(out.key.Namespace, svc)
		} else {
			out.warnings = append(out.warnings, fmt.Sprintf("%s: metadata.labels: without %s it belongs to no Service",
				out.key, discoveryv1.LabelServiceName))
		}
	}
	object.SetNamespace(out.key.Namespace)
	out.object = object
	return out
}

// plainError describes a field of the wrong type in the terms of YAML, not of Go.
func plainError(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		is := strings.NewReplacer("array", "list", "object", "mapping").Replace(wrong.Value)
		return fmt.Errorf("%s: is a %s; write a %s", cmp.Or(wrong.Field, "the document"), is, yamlType(wrong.Type))
	}
	return err
}

func yamlType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "mapping"
	case reflect.Slice:
		return "list"
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "string"
	}
	return "number"
}
