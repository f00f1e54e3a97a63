package config

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-proxy/config/v1alpha1"
)

// doc is one of the two documents that make a configuration.
type doc int

const (
	kubeProxy doc = iota
	portald
)

const portaldGroup = "portald.io"

// typeMeta is the kind of a document.
func (d doc) typeMeta() metav1.TypeMeta {
	if d == kubeProxy {
		return metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "KubeProxyConfiguration"}
	}
	return metav1.TypeMeta{APIVersion: portaldGroup + "/v1alpha1", Kind: "PortaldConfiguration"}
}

func (d doc) String() string { return d.typeMeta().Kind }

// kubeProxyDocument is a KubeProxyConfiguration with a field that only releases up to 1.25 had, for userspace mode.
type kubeProxyDocument struct {
	v1alpha1.KubeProxyConfiguration `json:",inline"`
	UDPIdleTimeout                  metav1.Duration `json:"udpIdleTimeout,omitzero"`
}

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
