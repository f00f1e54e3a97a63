package connlog

import (
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

// AppendLogfmt appends a line as name=value pairs. Empty values, null and [] are left out, the fields of an object have
// its name before theirs (client_tcp_rtt_ms), and attempts are a text.
func AppendLogfmt(b []byte, l *Line) []byte {
	w := logfmtWriter{text: b}
	l.Fields(&w)
	w.text[len(w.text)-1] = '\n'
	return w.text
}

type logfmtWriter struct {
	text   []byte
	prefix string // of names
}

// Field implements FieldWriter: it appends a pair and a space.
func (w *logfmtWriter) Field(name string, v slog.Value) {
	if o, ok := objectIn(v); ok {
		w.prefix = name + "_"
		o.Fields(w)
		w.prefix = ""
		return
	}
	start := len(w.text)
	w.text = append(append(append(w.text, w.prefix...), name...), '=')
	value := len(w.text)
	switch v.Kind() {
	case slog.KindString:
		w.text = appendLogfmtText(w.text, v.String())
	case slog.KindAny:
		w.any(v.Any())
	default:
		w.text = appendNumber(w.text, v)
	}
	if len(w.text) == value {
		w.text = w.text[:start]
		return
	}
	w.text = append(w.text, ' ')
}

func objectIn(v slog.Value) (o Object, ok bool) {
	if v.Kind() == slog.KindAny {
		o, ok = v.Any().(Object)
	}
	return o, ok
}

func (w *logfmtWriter) any(v any) {
	switch v := v.(type) {
	case *Time:
		w.text, _ = v.AppendText(w.text) // it has no errors
	case *netip.AddrPort:
		w.text = appendAddress(w.text, *v)
	case *[]Attempt:
		w.text = appendLogfmtText(w.text, attemptsText(*v))
	}
}

// attemptsText is "10.1.0.2:8080 from 10.0.0.1:35010 0.2 ms: connection refused; 10.1.0.3:8080 …".
func attemptsText(attempts []Attempt) string {
	var b []byte
	for i, a := range attempts {
		if i > 0 {
			b = append(b, "; "...)
		}
		b = appendAddress(b, a.Endpoint)
		if a.Proxy.IsValid() {
			b = appendAddress(append(b, " from "...), a.Proxy)
		}
		b = append(appendMillis(append(b, ' '), a.MS), " ms"...)
		if a.Times > 1 {
			b = append(strconv.AppendInt(append(b, ' '), int64(a.Times), 10), " times"...)
		}
		if a.Error != "" {
			b = append(append(b, ": "...), a.Error...)
		}
		if a.Ejection != "" {
			b = append(append(append(b, " ("...), a.Ejection...), ')')
		}
	}
	return string(b)
}

func appendNumber(b []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(b, v.Uint64(), 10)
	}
	return appendMillis(b, v.Float64())
}

func appendLogfmtText(b []byte, s string) []byte {
	special := func(r rune) bool {
		return r == ' ' || r == '=' || r == '"' || r == '\\' || r == unicode.ReplacementChar || !unicode.IsPrint(r)
	}
	if strings.ContainsFunc(s, special) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}
