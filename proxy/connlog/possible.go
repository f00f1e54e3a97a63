package connlog

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/portald/portald/proxy/record"
)

// Between returns the times that a record must have been open at: zero: any. It lets a reader of many files leave out
// some of them.
func (f *Filter) Between() (since, until time.Time) {
	for _, c := range f.wanted["since"] {
		if t, _ := time.Parse(time.RFC3339Nano, c.text); since.IsZero() || t.Before(since) {
			since = t
		}
	}
	for _, c := range f.wanted["until"] {
		if t, _ := time.Parse(time.RFC3339Nano, c.text); t.After(until) {
			until = t
		}
	}
	return since, until
}

// Possible tells whether a line as AppendJSON writes it may match, in a tenth of the time that it takes to decode the
// line: false: it does not.
func (f *Filter) Possible(line []byte) bool {
	for _, values := range f.wanted {
		if !anyPossible(values, line) {
			return false
		}
	}
	return true
}

func anyPossible(values []condition, line []byte) bool {
	for _, c := range values {
		if c.possible == nil || c.possible(line) {
			return true
		}
	}
	return false
}

// possible returns what a line must have, to match a value of a key, nil if it may be any line.
func possible(key, text string) func(line []byte) bool {
	switch key {
	case "service", "namespace", "pod", "from-pod", "to-pod", "node":
		return hasName(text)
	case "ip", "from-ip", "to-ip":
		if p, err := parsePrefix(text); err == nil && p.IsSingleIP() {
			return has(p.Addr().String())
		}
	case "endpoint":
		if a, err := netip.ParseAddrPort(text); err == nil {
			return has(a.String())
		} else if a, err := netip.ParseAddr(text); err == nil {
			return has(a.String())
		}
	case "port":
		if n, err := strconv.Atoi(text); err == nil {
			return has(":" + strconv.Itoa(n))
		}
	case "proto":
		return has(`"protocol":"` + text + `"`)
	case "carried-by":
		return has(`"carried_by":"` + text + `"`)
	case "outcome":
		return hasOutcome(text)
	case "since":
		return endedSince(text)
	case "until":
		return begunUntil(text)
	}
	return nil
}

func has(part string) func([]byte) bool {
	text := []byte(part)
	return func(line []byte) bool { return bytes.Contains(line, text) }
}

// hasName is has for a pattern of names that is one name, which JSON has as it is.
func hasName(pattern string) func([]byte) bool {
	for _, c := range []byte(pattern) {
		if !plain[c] || strings.IndexByte(`*?[\`, c) >= 0 {
			return nil
		}
	}
	return has(pattern)
}

func hasOutcome(text string) func([]byte) bool {
	outcome := func(o string) func([]byte) bool { return has(`"outcome":"` + o + `"`) }
	if text != "failed" {
		return outcome(text)
	}
	ok, maxAge := outcome(string(record.OutcomeOK)), outcome(string(record.OutcomeMaxAge))
	return func(line []byte) bool { return !ok(line) && !maxAge(line) }
}

func endedSince(text string) func([]byte) bool {
	since, _ := time.Parse(time.RFC3339Nano, text)
	return func(line []byte) bool {
		start, ok := startOf(line)
		if !ok || !start.Before(since) {
			return true
		}
		_, rest, ok := bytes.Cut(line, []byte(`,"duration_ms":`))
		digits, _, _ := bytes.Cut(rest, []byte(","))
		ms, err := strconv.ParseFloat(string(digits), 64)
		return !ok || err != nil || !start.Add(time.Duration(ms*float64(time.Millisecond))).Before(since)
	}
}

func begunUntil(text string) func([]byte) bool {
	until, _ := time.Parse(time.RFC3339Nano, text)
	return func(line []byte) bool {
		start, ok := startOf(line)
		return !ok || !start.After(until)
	}
}

// lineMark begins each line that AppendJSON writes.
const lineMark = `{"time":"`

// startOf is the time of a line.
func startOf(line []byte) (time.Time, bool) {
	text, ok := bytes.CutPrefix(line, []byte(lineMark))
	end := bytes.IndexByte(text, '"')
	if !ok || end < 0 {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, string(text[:end]))
	return t, err == nil
}
