package service

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Setting is one property of how a Service is carried. The daemon has a value for all Services, from a field of the
// PortaldConfiguration or a flag, and a Service overrides it by an annotation. Annotations, fields, flags, checks and
// the tables of docs/configuration.md all come from Settings, so a new setting is one entry there.
type Setting struct {
	Name  string // of the annotation, portald.io/NAME, and of the flag, --NAME, if that has no name of its own
	Flag  string // the flag's own name
	Field string // of the PortaldConfiguration; empty: the daemon's value is no setting of this table
	Value Value
	Help  string // what the daemon's value does, with its placeholder in backquotes
	About string // what the annotation does

	// InKernel is what a Service has instead that the kernel carries, and KernelValue the value that asks for just that,
	// empty: none does. InUserspace is the same of Services that the daemon carries. Both empty: it counts in both modes.
	InKernel, KernelValue string
	InUserspace           string
}

// Instead is what a Service has instead in a mode in which the setting does not count; empty: it counts.
func (s *Setting) Instead(m Mode) string {
	if m == ModeKernel {
		return s.InKernel
	}
	return s.InUserspace
}

// Missed tells whether a value that the setting may have asks for something that a Service does not get in a mode.
func (s *Setting) Missed(m Mode, value string) bool {
	if s.Instead(m) == "" {
		return false
	}
	var asked, has Port
	s.Value.Read(value, &asked)
	return m != ModeKernel || s.KernelValue == "" || !s.Value.Read(s.KernelValue, &has) || !asked.Policy.Equal(has.Policy)
}

// SettingOf returns the setting of a name; false: there is none.
func SettingOf(name string) (Setting, bool) {
	all := Settings()
	at := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })
	if at < 0 {
		return Setting{}, false
	}
	return all[at], true
}

// Value is how a setting is written, and which part of a Port it sets: a Times, a Timeout, a Count,
// a Ratio, a Choice, Words, a Removals, an Ages, a WakeUp or a Moment.
type Value interface {
	// Form says what may be written.
	Form() string
	// Read sets what text says in a port. False: text is not of the form, and the port is as it was.
	Read(text string, port *Port) bool
	setDefault(*Port)
}

// Times is a list of times, such as 250ms,1s. The zero value of the part stands for "not set", as for all kinds of
// Value.
type Times struct {
	Default []time.Duration
	Most    int // in the list
	Part    func(*Port) *[]time.Duration
}

// Timeout is one time.
type Timeout struct {
	Default time.Duration
	Never   bool // 0 may be written, and means Never
	Needed  bool // though Never is allowed for a Service, the daemon's value must be above 0
	Part    func(*Port) *time.Duration
}

// Count is a number from 0.
type Count struct {
	Default *int // nil: none
	Most    int  // 0: no maximum
	Set     func(*Port, int)
}

// Choice is one of some words.
type Choice struct {
	Default string
	Words   []string
	Set     func(*Port, string)
}

// Moment is a point in time. The daemon has none.
type Moment struct {
	Part func(*Port) **time.Time
}

// maxTimeout is the longest time that an annotation may ask for, as a bound on mistakes: the daemon's own has no
// maximum.
const maxTimeout = 1000 * time.Hour

// FlagName is the name of the daemon's flag.
func (s *Setting) FlagName() string { return cmp.Or(s.Flag, s.Name) }

// Form implements Value.
func (v Times) Form() string {
	return fmt.Sprintf("1 to %d durations above 0, separated by commas, such as 250ms,1s", v.Most)
}

// Form implements Value.
func (v Timeout) Form() string {
	form := "a time above 0 and up to 1000h, such as 90s or 5m"
	if v.Never {
		form += ", or 0 for never"
	}
	return form
}

// Form implements Value.
func (v Count) Form() string {
	if v.Most == 0 {
		return "a number, 0 for no limit"
	}
	return fmt.Sprintf("a number from 0 to %d", v.Most)
}

// Form implements Value.
func (v Choice) Form() string {
	last := len(v.Words) - 1
	return strings.Join(v.Words[:last], ", ") + " or " + v.Words[last]
}

// Form implements Value.
func (v Moment) Form() string { return "a time such as 2026-11-28T10:20:00Z (RFC 3339)" }

// Read implements Value.
func (v Times) Read(text string, port *Port) bool {
	var times []time.Duration
	for part := range strings.SplitSeq(text, ",") {
		t, ok := readTime(strings.TrimSpace(part))
		if !ok || t == 0 || len(times) == v.Most {
			return false
		}
		times = append(times, t)
	}
	*v.Part(port) = times
	return true
}

// Read implements Value.
func (v Timeout) Read(text string, port *Port) bool {
	t, ok := readTime(text)
	if !ok || t == 0 && !v.Never {
		return false
	}
	v.Set(port, t)
	return true
}

// Set sets a time that is not negative.
func (v Timeout) Set(port *Port, t time.Duration) {
	if t == 0 {
		t = Never
	}
	*v.Part(port) = t
}

// Read implements Value.
func (v Count) Read(text string, port *Port) bool {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 || v.Most > 0 && n > int64(v.Most) {
		return false
	}
	v.Set(port, int(n))
	return true
}

// Read implements Value.
func (v Choice) Read(text string, port *Port) bool {
	if !slices.Contains(v.Words, text) {
		return false
	}
	v.Set(port, text)
	return true
}

// Read implements Value.
func (v Moment) Read(text string, port *Port) bool {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.IsZero() {
		return false
	}
	*v.Part(port) = new(t.UTC())
	return true
}

func (v Moment) setDefault(*Port) {}

func (v Times) setDefault(port *Port) { *v.Part(port) = v.Default }

func (v Timeout) setDefault(port *Port) { v.Set(port, v.Default) }

func (v Count) setDefault(port *Port) {
	if v.Default != nil {
		v.Set(port, *v.Default)
	}
}

func (v Choice) setDefault(port *Port) {
	if v.Default != "" {
		v.Set(port, v.Default)
	}
}

// readTime reads a time from 0 to maxTimeout.
func readTime(text string) (time.Duration, bool) {
	t, err := time.ParseDuration(text)
	return t, err == nil && t >= 0 && t <= maxTimeout
}
