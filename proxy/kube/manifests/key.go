package manifests

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portald/portald/proxy/kube/translate"
)

// keyOf checks names as the API server does, and sets a missing namespace as kubectl does.
func keyOf(kind translate.Kind, head header) (translate.Key, error) {
	key := translate.Key{Kind: kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}
	if !kind.Namespaced() {
		key.Namespace = ""
	} else if key.Namespace == "" {
		key.Namespace = metav1.NamespaceDefault
	}
	if key.Name == "" {
		return translate.Key{}, fmt.Errorf("metadata.name: is missing on a %s; write one", kind)
	}
	check := validation.IsDNS1123Subdomain
	if kind == translate.KindService {
		check = validation.IsDNS1123Label
	}
	if wrong := check(key.Name); len(wrong) > 0 {
		return translate.Key{}, fmt.Errorf("metadata.name: %q of a %s: %s", key.Name, kind, wrong[0])
	}
	if wrong := validation.IsDNS1123Label(key.Namespace); kind.Namespaced() && len(wrong) > 0 {
		return translate.Key{}, fmt.Errorf("metadata.namespace: %q of %s %s: %s", key.Namespace, kind, key.Name, wrong[0])
	}
	return key, nil
}

// anyKindKey stands for the objects of any kind with this name; zero without a name.
func anyKindKey(namespace, name string) translate.Key {
	if name == "" {
		return translate.Key{}
	}
	return translate.Key{Namespace: cmp.Or(namespace, metav1.NamespaceDefault), Name: name}
}

// serviceKey is the Service of a name; without a namespace it is in kubectl's default one.
func serviceKey(namespace, name string) translate.Key {
	return translate.Key{Kind: translate.KindService, Namespace: cmp.Or(namespace, metav1.NamespaceDefault), Name: name}
}
