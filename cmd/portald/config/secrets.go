package config

import (
	"reflect"
	"slices"

	"github.com/portald/portald/proxy/secret"
)

// revealed are the secrets of a field.
func revealed(field reflect.Value) (out []string) {
	for _, v := range values(field) {
		if s, ok := v.(secret.Secret); ok {
			out = append(out, s.Reveal())
		}
	}
	return out
}

// openSecrets has the secrets of documents encoded as they are.
func (d *documents) openSecrets() {
	for _, s := range settings() {
		field := d.at(s)
		if !field.IsValid() {
			continue
		}
		switch p := field.Addr().Interface().(type) {
		case *secret.URL:
			*p = p.Opened()
		case *[]secret.Header:
			*p = slices.Clone(*p)
			for i, h := range *p {
				(*p)[i] = h.Opened()
			}
		}
	}
}
