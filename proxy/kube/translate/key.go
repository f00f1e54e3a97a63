package translate

import (
	"cmp"
	"strings"

	"github.com/portald/portald/portal/service"
)

// Key names an object. One that is in no namespace has none here.
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

func (k Key) service() service.Name { return service.Name{Namespace: k.Namespace, Name: k.Name} }

// Compare orders keys by kind, namespace, name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

func compareNames(a, b service.Name) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
