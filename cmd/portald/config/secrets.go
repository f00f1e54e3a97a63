package config

import (
	"encoding/csv"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/portald/portald/proxy/secret"
)

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

// ShownLine returns a command line of the daemon without its secrets.
func ShownLine(line []string) []string {
	out, flags := slices.Clone(line), NewFlags()
	for i, word := range out {
		name, value, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag := flags.lookup(name)
		if !strings.HasPrefix(word, "-") || flag == nil || !isSecret(flag) {
			continue
		}
		switch {
		case joined:
			out[i] = word[:len(word)-len(value)] + hide(flag, value)
		case i+1 < len(out):
			out[i+1] = hide(flag, out[i+1])
		}
	}
	return out
}

// CommandLine is that of this process, without its secrets.
func CommandLine() []string { return ShownLine(os.Args) }

func isSecret(flag *pflag.Flag) bool {
	_, list := flag.Value.(*headers)
	_, one := flag.Value.(secret.Secret)
	return list || one
}

// hide is how a value of a flag is shown.
func hide(flag *pflag.Flag, value string) string {
	fresh := NewFlags().lookup(flag.Name).Value
	_ = fresh.Set(value) // it takes every text
	return fresh.String()
}

// FlagError is an error about flags without the value that some of them would show.
func FlagError(err error) error {
	flag := ""
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok && len(e.GetSpecifiedShortnames()) > 1 {
		flag = "-" + e.GetSpecifiedShortnames()
	}
	if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		flag = e.GetSpecifiedFlag()
	}
	if flag == "" {
		return err
	}
	name, _, _ := strings.Cut(flag, "=")
	return errors.New(name + ": there is no such flag; those with names of more than one letter begin with two dashes")
}
