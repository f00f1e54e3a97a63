package connlog

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Filter selects records, by keys such as service and outcome: a record passes if each key that has values matches one
// of them, and no key matches a value that was added with not. The zero Filter lets all records pass.
type Filter struct {
	wanted, unwanted map[string][]condition
}

// condition is one value of a key.
type condition struct {
	text     string // as Query writes it
	matches  func(*Line) bool
	possible func(line []byte) bool // see Possible; nil: each is
}

// notPrefix marks keys of a query whose values are not wanted.
const notPrefix = "not-"

// Key is one key of filters: the name of a flag of the commands, and of a value of the API's queries.
type Key struct {
	Name  string
	Value string // what it takes, one word
	Help  string
}

// Keys lists the keys, in the order of the manual.
func Keys() []Key {
	out := make([]Key, len(keys()))
	for i, k := range keys() {
		out[i] = k.Key
	}
	return out
}

// Add adds a value of a key. Relative times are counted back from now.
func (f *Filter) Add(not bool, name, value string, now time.Time) error {
	at := slices.IndexFunc(keys(), func(k key) bool { return k.Name == name })
	if at < 0 {
		return fmt.Errorf("%s: there is no such filter", name)
	}
	k := keys()[at]
	matches, text, err := k.parse(value, now)
	if err != nil {
		return fmt.Errorf("%s %q: must be %w", name, value, err)
	}
	into := &f.wanted
	if not {
		into = &f.unwanted
	}
	if *into == nil {
		*into = map[string][]condition{}
	}
	(*into)[name] = append((*into)[name], condition{text, matches, possible(name, text)})
	return nil
}

// ParseFilter reads what Query writes. It takes the keys of filters and leaves others alone.
func ParseFilter(query url.Values, now time.Time) (*Filter, error) {
	f := &Filter{}
	for _, k := range keys() {
		for _, not := range []bool{false, true} {
			for _, value := range query[queryKey(not, k.Name)] {
				if err := f.Add(not, k.Name, value, now); err != nil {
					return nil, err
				}
			}
		}
	}
	return f, nil
}

// Query writes the filter for the API, with absolute times.
func (f *Filter) Query() url.Values {
	out := url.Values{}
	for not, all := range map[bool]map[string][]condition{false: f.wanted, true: f.unwanted} {
		for name, values := range all {
			for _, c := range values {
				out.Add(queryKey(not, name), c.text)
			}
		}
	}
	return out
}

func queryKey(not bool, name string) string {
	if not {
		return notPrefix + name
	}
	return name
}

// Empty tells whether all records pass.
func (f *Filter) Empty() bool { return len(f.wanted) == 0 && len(f.unwanted) == 0 }

// Match tells whether a record passes.
func (f *Filter) Match(l *Line) bool {
	matches := func(c condition) bool { return c.matches(l) }
	for _, values := range f.wanted {
		if !slices.ContainsFunc(values, matches) {
			return false
		}
	}
	for _, values := range f.unwanted {
		if slices.ContainsFunc(values, matches) {
			return false
		}
	}
	return true
}

// String shows the filter as flags.
func (f *Filter) String() string {
	var out []string
	query := f.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range query[name] {
			out = append(out, name+"="+value)
		}
	}
	return strings.Join(out, " ")
}
