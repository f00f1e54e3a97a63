package connlog

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// AppendText appends a line for people:
//
//	2026-11-21 12:00:01.123 shop/cart:http tcp 10.0.0.9:41234 → 10.96.0.10:80 (ClusterIP) → 10.0.0.1:35012 →
//	  10.1.0.3:8080 shop/cart-a  ok  fin by client  1.2 kB up  45 kB down  connect 0.4 ms  first byte 1.1 ms  total 12 ms
//	  [tried 10.1.0.2:8080 from 10.0.0.1:35010: connection refused 0.2 ms]
//
// (one line, broken here). Times are UTC. Two spaces separate the parts. Characters that are not printable are escaped,
// in names also spaces, so that no record can look like two.
func AppendText(b []byte, l *Line) []byte {
	b = l.Time.UTC().AppendFormat(b, "2006-01-02 15:04:05.000 ")
	b = appendWord(b, l.Service)
	b = appendWord(append(b, ' '), l.Protocol)
	b = appendPath(append(b, ' '), l)
	b = appendEnd(append(b, "  "...), l)
	b = appendCarried(b, l)
	b = appendTried(b, l)
	return append(b, '\n')
}

// appendPath writes client → portal → proxy → endpoint.
func appendPath(b []byte, l *Line) []byte {
	b = appendOrDash(b, l.Client)
	if l.ClientPod != "" {
		b = appendWord(append(b, ' '), l.ClientPod)
	}
	b = appendOrDash(append(b, " → "...), l.OriginalDst)
	if l.Portal != "" {
		b = append(appendWord(append(b, " ("...), l.Portal), ')')
	}
	if l.Proxy.IsValid() {
		b = appendAddress(append(b, " → "...), l.Proxy)
	}
	b = appendOrDash(append(b, " → "...), l.Endpoint)
	if l.Pod != "" {
		b = appendWord(append(b, ' '), l.Pod)
	}
	if l.Node != "" {
		b = appendWord(append(b, " on "...), l.Node)
	}
	return b
}

// appendEnd writes how it ended, or what else the line is about.
func appendEnd(b []byte, l *Line) []byte {
	if l.Event != End {
		return appendWord(b, string(l.Event))
	}
	b = appendWord(b, string(l.Outcome))
	if l.CloseType != "" {
		b = appendWord(append(b, "  "...), string(l.CloseType))
		if l.ClosedBy != "" {
			b = appendWord(append(b, " by "...), string(l.ClosedBy))
		}
	}
	if l.Error != "" {
		b = append(appendPhrase(append(b, " ("...), l.Error), ')')
	}
	return b
}

// appendCarried writes bytes and times.
func appendCarried(b []byte, l *Line) []byte {
	b = appendDelivered(appendBytes(append(b, "  "...), l.BytesFromClient), " up", l.BytesToEndpoint)
	b = appendDelivered(appendBytes(append(b, "  "...), l.BytesFromEndpoint), " down", l.BytesToClient)
	if l.Interval != nil {
		b = appendInterval(b, l.Interval)
	}
	if l.ConnectMS != nil {
		b = appendDuration(append(b, "  connect "...), duration(*l.ConnectMS))
	}
	if l.FirstByteMS != nil {
		b = appendDuration(append(b, "  first byte "...), duration(*l.FirstByteMS))
	}
	b = appendDuration(append(b, "  total "...), duration(l.DurationMS))
	if l.Affinity != "" {
		b = appendWord(append(b, "  affinity "...), l.Affinity)
	}
	return b
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// appendDelivered writes the direction, and how many bytes were delivered if not all were.
func appendDelivered(b []byte, label string, delivered *int64) []byte {
	b = append(b, label...)
	if delivered == nil {
		return b
	}
	return append(appendBytes(append(b, " ("...), *delivered), " delivered)"...)
}

func appendInterval(b []byte, i *Interval) []byte {
	b = append(appendBytes(append(b, "  (of these "...), i.BytesFromClient), " up, "...)
	b = append(appendBytes(b, i.BytesFromEndpoint), " down in the last "...)
	return append(appendDuration(b, duration(i.MS)), ')')
}

// appendTried writes the attempts that failed, and how often the client's bytes were sent again.
func appendTried(b []byte, l *Line) []byte {
	for _, a := range l.Attempts {
		if a.Error == "" {
			continue
		}
		b = appendAddress(append(b, "  [tried "...), a.Endpoint)
		if a.Proxy.IsValid() {
			b = appendAddress(append(b, " from "...), a.Proxy)
		}
		b = appendPhrase(append(b, ": "...), a.Error)
		if a.Times > 1 {
			b = append(strconv.AppendInt(append(b, ' '), int64(a.Times), 10), " times in"...)
		}
		if a.MS > 0 { // else it is not known
			b = appendDuration(append(b, ' '), duration(a.MS))
		}
		switch a.Ejection {
		case Ejected:
			b = append(b, ", ejected"...)
		case ProbeFailed:
			b = append(b, ", a probe, ejected again"...)
		}
		b = append(b, ']')
	}
	if l.Replays > 0 {
		b = strconv.AppendInt(append(b, "  replays "...), int64(l.Replays), 10)
	}
	return b
}

func appendOrDash(b []byte, a netip.AddrPort) []byte {
	if !a.IsValid() {
		return append(b, '-')
	}
	return appendAddress(b, a)
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
