package kube

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portald/portald/proxy/service"
)

// Key names an object. A Node has no namespace.
type Key struct {
	Kind            Kind
	Namespace, Name string
}

// String is "service shop/cart", or "node n1".
func (k Key) String() string {
	kind := strings.ToLower(string(k.Kind))
	if k.Namespace == "" {
		return kind + " " + k.Name
	}
	return kind + " " + k.Namespace + "/" + k.Name
}

// Compare orders keys by kind, namespace, name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

func compareNames(a, b service.Name) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// keyOf checks the names as the API server does, and fills in the namespace as kubectl does.
func keyOf(kind Kind, head header) (Key, error) {
	key := Key{kind, head.Metadata.Namespace, head.Metadata.Name}
	if kind == KindNode {
		key.Namespace = ""
	} else if key.Namespace == "" {
		key.Namespace = metav1.NamespaceDefault
	}
	if key.Name == "" {
		return Key{}, fmt.Errorf("metadata.name: is missing on a %s; write one", kind)
	}
	check := validation.IsDNS1123Subdomain
	if kind == KindService {
		check = validation.IsDNS1123Label
	}
	if wrong := check(key.Name); len(wrong) > 0 {
		return Key{}, fmt.Errorf("metadata.name: %q of a %s: %s", key.Name, kind, wrong[0])
	}
	if wrong := validation.IsDNS1123Label(key.Namespace); kind != KindNode && len(wrong) > 0 {
		return Key{}, fmt.Errorf("metadata.namespace: %q of %s %s: %s", key.Namespace, kind, key.Name, wrong[0])
	}
	return key, nil
}

// unclearKey stands for the objects of any kind that have this name; zero without a name.
func unclearKey(namespace, name string) Key {
	if name == "" {
		return Key{}
	}
	return Key{Namespace: cmp.Or(namespace, metav1.NamespaceDefault), Name: name}
}
