package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	kjson "sigs.k8s.io/json"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/secret"
)

// fieldReader decodes a document field by field: a decoder of whole documents stops at the first value of the wrong
// type, and does not name the field of an invalid time.
type fieldReader struct {
	known   map[string]bool // paths without a field in the type that are valid
	written map[string]any  // valid values, by path
	unread  map[string]bool // paths of values of the wrong type
	unknown []string
	wrong   []string
}

// read decodes the fields under a path, empty for the whole document.
func (r *fieldReader) read(path string, fields map[string]any, into reflect.Value) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at, value := strings.TrimPrefix(path+"."+name, "."), fields[name]
		field := fieldOf(into, name)
		switch {
		case !field.IsValid() && !r.known[at]:
			r.unknown = append(r.unknown, at+": there is no such field")
		case at == "apiVersion", at == "kind":
		case !field.IsValid():
			r.written[at] = value
		case isGroup(field.Type()):
			r.readGroup(at, value, field)
		default:
			if value == false && takesOff(at) {
				value = "off"
			}
			r.written[at] = value
			r.readValue(at, value, field)
		}
	}
}

// takesOff tells whether a field may say off, which YAML reads as false where it stands without quotes.
func takesOff(path string) bool {
	return slices.ContainsFunc(service.Settings(), func(s service.Setting) bool {
		choice, ok := s.Value.(service.Choice)
		return ok && s.Field == path && slices.Contains(choice.Words, service.RecordsOff.String())
	})
}

func (r *fieldReader) readGroup(at string, value any, into reflect.Value) {
	fields, ok := value.(map[string]any)
	if !ok && value != nil {
		r.fail(at, value, into, "must be a mapping of fields")
		return
	}
	r.read(at, fields, into)
}

func (r *fieldReader) readValue(at string, value any, into reflect.Value) {
	if value == nil {
		return
	}
	if list, ok := value.([]any); ok && into.Kind() == reflect.Slice {
		r.readList(at, list, into)
		return
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		r.fail(at, value, into, err.Error())
		return
	}
	fresh := reflect.New(into.Type())
	strict, err := kjson.UnmarshalStrict(encoded, fresh.Interface())
	if err != nil {
		r.fail(at, value, into, "must be "+wanted(into.Type(), value))
		return
	}
	for _, s := range strict {
		r.unknown = append(r.unknown, at+": "+s.Error())
	}
	into.Set(fresh.Elem())
}

// readList decodes each item by itself, so that each mistake is named.
func (r *fieldReader) readList(at string, list []any, into reflect.Value) {
	for i, item := range list {
		wrong, element := len(r.wrong), reflect.New(into.Type().Elem()).Elem()
		if r.readValue(fmt.Sprintf("%s[%d]", at, i), item, element); len(r.wrong) == wrong {
			into.Set(reflect.Append(into, element))
		}
	}
}

// fail refuses the value that is written for a field.
func (r *fieldReader) fail(at string, value any, into reflect.Value, advice string) {
	text := shown(value)
	if holdsSecret(into.Type()) {
		text = secret.Hidden // a secret may be written where it does not belong
	}
	r.wrong = append(r.wrong, fmt.Sprintf("%s: %s: %s", at, text, advice))
	field, _, _ := strings.Cut(at, "[") // at is an item of a list
	r.unread[field] = true
	delete(r.written, at)
}

// wanted names the kind of value that a field of a type takes, for messages.
func wanted(t reflect.Type, value any) string {
	if t.Implements(reflect.TypeFor[secret.Secret]()) {
		return "a text; put it into quotes"
	}
	switch t {
	case reflect.TypeFor[metav1.Duration](), reflect.TypeFor[logsapi.TimeOrMetaDuration]():
		return "a time with its unit, as in 30s or 5m"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem(), value)
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		switch value.(type) {
		case []any:
			return "a text, not a list"
		case map[string]any:
			return "a text, not a mapping"
		}
		return "a text; put it into quotes"
	case reflect.Slice:
		return "a list, each " + wanted(t.Elem(), nil)
	case reflect.Map:
		return "a mapping of names, each to " + wanted(t.Elem(), nil)
	case reflect.Struct:
		return "a mapping of fields"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number that is not too large"
}

// holdsSecret tells whether a value of a type has a secret in it, at any depth.
func holdsSecret(t reflect.Type) bool {
	switch {
	case t.Implements(reflect.TypeFor[secret.Secret]()):
		return true
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Pointer:
		return holdsSecret(t.Elem())
	case t.Kind() == reflect.Struct:
		return slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
			return f.IsExported() && holdsSecret(f.Type)
		})
	}
	return false
}
