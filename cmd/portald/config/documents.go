package config

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// documents are a configuration as a file writes it.
type documents struct {
	kubeProxy kubeProxyDocument
	portald   PortaldConfiguration
	system    string // of the daemon, as in runtime.GOOS: some defaults depend on it, and what has an effect
}

// root is a document.
func (d *documents) root(which doc) reflect.Value {
	if which == kubeProxy {
		return reflect.ValueOf(&d.kubeProxy).Elem()
	}
	return reflect.ValueOf(&d.portald).Elem()
}

// at is the field of a setting; invalid if the document's type does not have it, as other releases of kube-proxy do.
func (d *documents) at(s setting) reflect.Value {
	v := d.root(s.doc)
	for name := range strings.SplitSeq(s.path, ".") {
		if v = fieldOf(v, name); !v.IsValid() {
			break
		}
	}
	return v
}

// fieldOf is the field of a document, or of a struct in one, that JSON calls name; invalid if there is none.
func fieldOf(v reflect.Value, name string) reflect.Value {
	if p, ok := v.Addr().Interface().(*PortaldConfiguration); ok {
		if field := p.serviceField(name); field.IsValid() {
			return field
		}
	}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name && !f.Anonymous && f.IsExported() {
			return v.FieldByIndex(f.Index)
		}
	}
	return reflect.Value{}
}

// isGroup tells whether a field is a mapping of fields, and not a value.
func isGroup(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return t.Kind() == reflect.Struct && !pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) &&
		!pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// windows is the system that has neither a mode of the kernel nor one of the writers of rules.
const windows = "windows"

// isService tells whether the daemon is a service of Windows.
func (d *documents) isService() bool { return d.system == windows && d.kubeProxy.WindowsRunAsService }

// values are the values of a field: the items of a list, none if it is not set or not in the document's type.
func values(field reflect.Value) []any {
	switch {
	case !field.IsValid() || field.Kind() == reflect.Pointer && field.IsNil():
		return nil
	case field.Kind() == reflect.Pointer:
		return values(field.Elem())
	case field.Kind() == reflect.Slice:
		var out []any
		for i := range field.Len() {
			out = append(out, field.Index(i).Interface())
		}
		return out
	}
	return []any{field.Interface()}
}

func (d *documents) hasSource() bool {
	return len(d.portald.Manifests) > 0 || d.kubeProxy.ClientConnection.Kubeconfig != "" || !d.portald.Master.IsZero()
}
