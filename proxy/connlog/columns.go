package connlog

import (
	"strconv"
	"unicode/utf8"
)

// AppendColumns appends a line in columns, so that the same thing stands at the same place of each line: the time, the
// event, the Service, the protocol, the client, the address that it dialled, our own address, the endpoint, its pod,
// bytes up and down, the times until the connect and the first byte and the total, the number of dials, the termination
// code, the flags, the outcome. A missing value is "-", and a value wider than its column moves the others.
func AppendColumns(b []byte, l *Line) []byte {
	b, _ = l.Time.AppendText(b) // it has no errors
	b = append(b, ' ')
	b = appendColumn(b, 8, func(b []byte) []byte { return appendWord(b, string(l.Event)) })
	b = appendColumn(b, 28, func(b []byte) []byte { return appendWord(b, l.Service) })
	b = appendColumn(b, 4, func(b []byte) []byte { return appendWord(b, l.Protocol) })
	b = appendColumn(b, 21, func(b []byte) []byte { return appendAddress(b, l.Client) })
	b = appendColumn(b, 21, func(b []byte) []byte { return appendAddress(b, l.OriginalDst) })
	b = appendColumn(b, 21, func(b []byte) []byte { return appendAddress(b, l.Proxy) })
	b = appendColumn(b, 21, func(b []byte) []byte { return appendAddress(b, l.Endpoint) })
	b = appendColumn(b, 28, func(b []byte) []byte { return appendWord(b, l.Pod) })
	b = appendColumn(b, 12, func(b []byte) []byte { return strconv.AppendInt(b, l.BytesFromClient, 10) })
	b = appendColumn(b, 12, func(b []byte) []byte { return strconv.AppendInt(b, l.BytesFromEndpoint, 10) })
	b = appendTime(b, l.ConnectMS)
	b = appendTime(b, l.FirstByteMS)
	b = appendTime(b, &l.DurationMS)
	b = appendColumn(b, 3, func(b []byte) []byte { return strconv.AppendInt(b, int64(l.Dials()), 10) })
	b = appendColumn(b, 2, func(b []byte) []byte { return appendWord(b, l.Termination) })
	b = appendColumn(b, 6, func(b []byte) []byte { return appendWord(b, l.Flags) })
	if l.Event != End {
		return append(b, "-\n"...)
	}
	return append(appendWord(b, string(l.Outcome)), '\n')
}

// appendTime appends a column with a time in milliseconds.
func appendTime(b []byte, ms *float64) []byte {
	return appendColumn(b, 11, func(b []byte) []byte {
		if ms == nil {
			return b
		}
		return strconv.AppendFloat(b, *ms, 'f', 3, 64)
	})
}

// appendColumn appends what text appends, spaces up to the width, and one more.
func appendColumn(b []byte, width int, text func([]byte) []byte) []byte {
	start := len(b)
	if b = text(b); len(b) == start {
		b = append(b, '-')
	}
	for n := utf8.RuneCount(b[start:]); n <= width; n++ {
		b = append(b, ' ')
	}
	if b[len(b)-1] != ' ' {
		b = append(b, ' ')
	}
	return b
}
