package config

import (
	"encoding/csv"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/portald/portald/proxy/secret"
)

// headers is a flag of a list of headers. The first use replaces the default, further ones append. It takes every text:
// the error for one that it does not take would show it.
type headers struct {
	values *[]secret.Header
	given  bool
}

func (h *headers) Type() string { return "headers" }

func (h *headers) String() string {
	if h.values == nil || len(*h.values) == 0 {
		return "[]"
	}
	return "[" + shown(*h.values) + "]"
}

func (h *headers) Set(text string) error {
	if !h.given {
		*h.values, h.given = nil, true
	}
	reader := csv.NewReader(strings.NewReader(text))
	reader.LazyQuotes = true
	fields, err := reader.Read()
	if err != nil {
		fields = []string{text}
	}
	for _, f := range fields {
		*h.values = append(*h.values, secret.NewHeader(f))
	}
	return nil
}

// durations is a flag of a list of times: the first use replaces the default, further ones append.
type durations struct {
	values *[]metav1.Duration
	given  bool
}

func (d *durations) Type() string { return "durations" }

func (d *durations) String() string {
	if d.values == nil {
		return "[]"
	}
	out := make([]string, len(*d.values))
	for i, v := range *d.values {
		out[i] = v.Duration.String()
	}
	return "[" + strings.Join(out, ",") + "]"
}

func (d *durations) Set(s string) error {
	var read []metav1.Duration
	for one := range strings.SplitSeq(s, ",") {
		v, err := time.ParseDuration(strings.TrimSpace(one))
		if err != nil {
			return fmt.Errorf("parse times such as 250ms,1s: %w", err)
		}
		read = append(read, metav1.Duration{Duration: v})
	}
	if d.given {
		read = append(*d.values, read...)
	}
	*d.values, d.given = read, true
	return nil
}

// define adds the flag of a setting, which sets its field.
func define(set *pflag.FlagSet, s setting, field reflect.Value) {
	if field.Kind() == reflect.Pointer {
		if field.IsNil() {
			field.Set(reflect.New(field.Type().Elem()))
		}
		field = field.Elem()
	}
	switch p := field.Addr().Interface().(type) {
	case *bool:
		set.BoolVar(p, s.flag, *p, s.text)
	case *int32:
		set.Int32Var(p, s.flag, *p, s.text)
	case *float32:
		set.Float32Var(p, s.flag, *p, s.text)
	case *metav1.Duration:
		set.DurationVar(&p.Duration, s.flag, p.Duration, s.text)
	case *logsapi.TimeOrMetaDuration:
		set.DurationVar(&p.Duration.Duration, s.flag, p.Duration.Duration, s.text)
	case *[]metav1.Duration:
		set.Var(&durations{values: p}, s.flag, s.text)
	case *[]string:
		defineList(set, s, p)
	case *[]secret.Header:
		set.Var(&headers{values: p}, s.flag, s.text)
	case *map[string]bool:
		set.Var(cliflag.NewMapStringBool(p), s.flag, s.text)
	case *logsapi.VModuleConfiguration:
		set.Var(logsapi.VModuleConfigurationPflag(p), s.flag, s.text)
	case *logsapi.VerbosityLevel:
		set.VarP(logsapi.VerbosityLevelPflag(p), s.flag, s.flag, s.text)
	case pflag.Value:
		set.Var(p, s.flag, s.text)
	default:
		p2 := field.Addr().Convert(reflect.TypeFor[*string]()).Interface().(*string)
		set.StringVar(p2, s.flag, *p2, s.text)
	}
}

// defineList adds the flag of a list. Paths may have commas.
func defineList(set *pflag.FlagSet, s setting, p *[]string) {
	if s.path == "manifests" {
		set.StringArrayVar(p, s.flag, *p, s.text)
	} else {
		set.StringSliceVar(p, s.flag, *p, s.text)
	}
}
