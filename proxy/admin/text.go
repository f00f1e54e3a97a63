package admin

import (
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/splice"
)

// textFormatter writes the record of an entry as one line for people:
//
//	2026-11-21 12:00:01.123 shop/cart:http tcp 10.0.0.9:41234 → 10.96.0.10:80 (ClusterIP) → 10.0.0.1:35012 →
//	  10.1.0.3:8080 shop/cart-a  ok  fin by client  1.2 kB up  45 kB down  connect 0.4 ms  first byte 1.1 ms  total 12 ms
//	  [tried 10.1.0.2:8080 from 10.0.0.1:35010: connection refused 0.2 ms]
//
// (one line, broken here). Times are UTC. Two spaces separate the parts. Characters that are not printable are escaped,
// in names also spaces, so that no record can look like two. One goroutine may use it.
type textFormatter struct{ line []byte }

// Format implements logrus.Formatter. What it returns is valid until the next call.
func (f *textFormatter) Format(e *logrus.Entry) ([]byte, error) {
	r, ok := e.Data[recordField].(*splice.Record)
	if !ok {
		return nil, fmt.Errorf("format log entry %q: it carries no record", e.Message)
	}
	b := r.Start.UTC().AppendFormat(f.line[:0], "2006-01-02 15:04:05.000 ")
	b = appendWord(b, r.Service.Label())
	b = append(append(b, ' '), r.Service.Protocol.String()...)
	b = appendPath(append(b, ' '), r)
	b = appendEnd(append(b, "  "...), r)
	b = appendCarried(b, r)
	b = appendTried(b, r)
	f.line = append(b, '\n')
	return f.line, nil
}

// appendPath writes client → portal → proxy → endpoint.
func appendPath(b []byte, r *splice.Record) []byte {
	b = append(b, orDash(address(r.Client))...)
	b = append(append(b, " → "...), orDash(address(r.OriginalDst))...)
	if kind := portalKind(r); kind != "" {
		b = append(append(append(b, " ("...), kind...), ')')
	}
	if proxy := r.Proxy(); proxy.IsValid() {
		b = append(append(b, " → "...), address(proxy)...)
	}
	b = append(append(b, " → "...), orDash(address(r.Endpoint.Addr))...)
	if r.Endpoint.Pod != "" {
		b = appendWord(append(b, ' '), r.Endpoint.Pod)
	}
	if r.Endpoint.Node != "" {
		b = appendWord(append(b, " on "...), r.Endpoint.Node)
	}
	return b
}

// appendEnd writes how it ended.
func appendEnd(b []byte, r *splice.Record) []byte {
	b = appendWord(b, string(r.Outcome))
	if r.CloseType != "" {
		b = appendWord(append(b, "  "...), string(r.CloseType))
		if r.ClosedBy != "" {
			b = appendWord(append(b, " by "...), string(r.ClosedBy))
		}
	}
	if r.Error != "" {
		b = append(appendPhrase(append(b, " ("...), r.Error), ')')
	}
	return b
}

// appendCarried writes bytes and times.
func appendCarried(b []byte, r *splice.Record) []byte {
	b = appendDelivered(appendBytes(append(b, "  "...), r.BytesFromClient), " up", r.BytesFromClient, r.BytesToEndpoint)
	b = appendDelivered(appendBytes(append(b, "  "...), r.BytesFromEndpoint), " down", r.BytesFromEndpoint,
		r.BytesToClient)
	if r.Connect >= 0 {
		b = appendDuration(append(b, "  connect "...), r.Connect)
	}
	if r.FirstByte >= 0 {
		b = appendDuration(append(b, "  first byte "...), r.FirstByte)
	}
	b = appendDuration(append(b, "  total "...), r.Duration)
	if r.Affinity != "" {
		b = appendWord(append(b, "  affinity "...), r.Affinity)
	}
	return b
}

// appendDelivered writes the direction, and how many bytes were delivered if not all were.
func appendDelivered(b []byte, way string, read, delivered int64) []byte {
	b = append(b, way...)
	if delivered == read {
		return b
	}
	return append(appendBytes(append(b, " ("...), delivered), " delivered)"...)
}

// appendTried writes the attempts that failed.
func appendTried(b []byte, r *splice.Record) []byte {
	for _, a := range r.Attempts {
		if a.Err == "" {
			continue
		}
		b = append(append(b, "  [tried "...), address(a.Endpoint)...)
		if a.Proxy.IsValid() {
			b = append(append(b, " from "...), address(a.Proxy)...)
		}
		b = appendPhrase(append(b, ": "...), a.Err)
		if a.Times > 1 {
			b = append(strconv.AppendInt(append(b, ' '), int64(a.Times), 10), " times in"...)
		}
		b = append(appendDuration(append(b, ' '), a.Took), ']')
	}
	return b
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// appendBytes writes n with two significant digits or more: 999 B, 1.2 kB, 45 kB, 3.4 GB (powers of 1000).
func appendBytes(b []byte, n int64) []byte {
	if n < 1000 {
		return append(strconv.AppendInt(b, n, 10), " B"...)
	}
	v, unit := float64(n), -1
	for v >= 999.5 && unit < len("kMGTPE")-1 {
		v /= 1000
		unit++
	}
	b = appendShort(b, v)
	return append(b, ' ', "kMGTPE"[unit], 'B')
}

// appendDuration writes 0.04 ms, 0.4 ms, 12 ms, 1.2 s, 45 s, 2m3s, 1h0m5s.
func appendDuration(b []byte, d time.Duration) []byte {
	switch ms := float64(d) / float64(time.Millisecond); {
	case ms < 0.095:
		return append(strconv.AppendFloat(b, ms, 'f', 2, 64), " ms"...)
	case ms < 999.5:
		return append(appendShort(b, ms), " ms"...)
	case ms < 59_500:
		return append(appendShort(b, ms/1000), " s"...)
	}
	return append(b, d.Round(time.Second).String()...)
}

// appendShort writes v with one decimal below 10 and with none above.
func appendShort(b []byte, v float64) []byte {
	if v < 9.95 {
		return strconv.AppendFloat(b, v, 'f', 1, 64)
	}
	return strconv.AppendFloat(b, v, 'f', 0, 64)
}

// appendWord writes s so that it stays one word of one line.
func appendWord(b []byte, s string) []byte { return appendEscaped(b, s, false) }

// appendPhrase writes s so that it stays on one line.
func appendPhrase(b []byte, s string) []byte { return appendEscaped(b, s, true) }

func appendEscaped(b []byte, s string, spaces bool) []byte {
	for i, r := range s {
		switch {
		case r == ' ' && !spaces:
			b = append(b, `\x20`...)
		case r == utf8.RuneError && !isEncoded(s[i:]):
			b = fmt.Appendf(b, `\x%02x`, s[i])
		case unicode.IsPrint(r) && r != '\\':
			b = utf8.AppendRune(b, r)
		default:
			quoted := strconv.QuoteRune(r)
			b = append(b, quoted[1:len(quoted)-1]...)
		}
	}
	return b
}

// isEncoded tells whether s begins with a rune, and not with a byte that is none.
func isEncoded(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size > 1
}
