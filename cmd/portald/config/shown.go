package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/secret"
)

// shown is a value in messages: about as it would be written.
func shown(value any) string {
	if s, ok := value.(secret.Secret); ok {
		return shownText(s.String())
	}
	v := reflect.ValueOf(value)
	switch {
	case !v.IsValid(), slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, v.Kind()) &&
		v.IsZero():
		return "<none>"
	case v.Kind() == reflect.Pointer:
		return shown(v.Elem().Interface())
	case v.Kind() == reflect.String:
		return shownText(v.String())
	case v.Kind() == reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = shown(v.Index(i).Interface())
		}
		return cmp.Or(strings.Join(parts, ","), "<none>")
	}
	switch v := value.(type) {
	case metav1.Duration:
		return v.Duration.String()
	case logsapi.TimeOrMetaDuration:
		return v.Duration.Duration.String()
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return strings.Trim(string(encoded), `"`)
}

func shownText(s string) string {
	if s == "" || s != strings.TrimSpace(s) || printable.Text(s) != s {
		return strconv.Quote(s)
	}
	return s
}
