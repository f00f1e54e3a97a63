// Package secret has the types of configured values that hold a secret: a header of requests, a URL with credentials.
// No printer shows what is secret of them: fmt with any verb, JSON, YAML, logs, flags. Reveal is the only way to it.
package secret

import (
	"fmt"
	"strings"
)

// Hidden is printed in place of a secret.
const Hidden = "REDACTED"

// Secret is the interface of all types here: a value that prints itself without its secret.
type Secret interface {
	fmt.Stringer
	Reveal() string
}

// Value is a text that is shown without its secret. The zero Value is an empty text.
type Value[F form] struct {
	text *string // behind a pointer: fmt follows none within a struct, and does not ask methods of unexported fields
	open bool
}

// form is how a kind of text is shown.
type form interface{ shown(text string) string }

// Header is NAME=VALUE, of which the value is secret.
type Header = Value[header]

// URL is one of which user, password and query are secret.
type URL = Value[address]

// Of returns a text as a Header or a URL.
func Of[F form](text string) (v Value[F]) {
	if text != "" {
		v.text = &text
	}
	return v
}

// NewHeader returns NAME=VALUE as a Header.
func NewHeader(text string) Header { return Of[header](text) }

// NewURL returns a URL.
func NewURL(text string) URL { return Of[address](text) }

// Reveal returns the text as it is.
func (v Value[F]) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// Equal tells whether two values are of the same text.
func (v Value[F]) Equal(other Value[F]) bool { return v.Reveal() == other.Reveal() }

// String returns the text without its secret.
func (v Value[F]) String() string {
	if v.open || v.text == nil {
		return v.Reveal()
	}
	var how F
	return how.shown(*v.text)
}

// Opened returns a value that is printed as it is, for a configuration that is written to be read again.
func (v Value[F]) Opened() Value[F] { return Value[F]{v.text, true} }

// Format implements fmt.Formatter, for every verb.
func (v Value[F]) Format(out fmt.State, _ rune) { fmt.Fprint(out, v.String()) }

// MarshalText implements encoding.TextMarshaler, which JSON and YAML ask.
func (v Value[F]) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes every text.
func (v *Value[F]) UnmarshalText(text []byte) error { return v.Set(string(text)) }

// IsZero tells whether the text is empty.
func (v Value[F]) IsZero() bool { return v.text == nil }

// Set implements pflag.Value. It takes every text: an error would be printed with it.
func (v *Value[F]) Set(text string) error {
	*v = Of[F](text)
	return nil
}

// Type implements pflag.Value.
func (v *Value[F]) Type() string { return "string" }

type header struct{}

func (header) shown(text string) string {
	name, _, named := strings.Cut(text, "=")
	if !named {
		return Hidden // it may be a value whose name was forgotten
	}
	return name + "=" + Hidden
}

type address struct{}

// shown goes by the text, since what is no valid URL may have a secret too.
func (address) shown(text string) string { return WithoutUser(withoutQuery(text)) }

// withoutQuery hides what follows the path. A question mark before the host is part of a password.
func withoutQuery(text string) string {
	host := strings.LastIndexByte(text, '@') + 1
	if i := strings.IndexAny(text[host:], "?#"); i >= 0 {
		return text[:host+i+1] + Hidden
	}
	return text
}

// WithoutUser hides the user and the password of a URL.
func WithoutUser(text string) string {
	host := strings.LastIndexByte(text, '@')
	if host < 0 {
		return text
	}
	scheme := strings.Index(text[:host], "://")
	if scheme < 0 {
		return Hidden + text[host:]
	}
	return text[:scheme+len("://")] + Hidden + text[host:]
}
