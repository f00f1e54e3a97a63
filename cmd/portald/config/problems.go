package config

import (
	"fmt"
	"strings"
)

// problems are the warnings and errors about a configuration, which name the flag or field that each is about.
type problems struct {
	file     *file           // nil: none
	flags    map[string]bool // those that take effect
	warnings []string
	errs     []error
}

// fail adds an error about a value, with the name of the flag or field that set it.
func (p *problems) fail(s setting, value, advice string) {
	name := p.origin(s)
	if !p.flags[s.flag] {
		name += ":"
	}
	p.errs = append(p.errs, fmt.Errorf("%s %s: %s", name, value, advice))
}

// origin is the flag or field that set a setting.
func (p *problems) origin(s setting) string {
	switch {
	case p.flags[s.flag]:
		return "--" + s.flag
	case p.file.has(s.doc):
		return p.file.where(s.doc) + ": " + s.path
	}
	if s.flag != "" {
		return "--" + s.flag
	}
	return s.path
}

// origins names where two fields were set, for one message: the second omits what both have in common.
func (p *problems) origins(path, other string) (string, string) {
	a, b := settingOf(path), settingOf(other)
	first, second := p.origin(a), p.origin(b)
	if p.flags[a.flag] || p.flags[b.flag] || !p.file.has(a.doc) || !p.file.has(b.doc) {
		return first, second
	}
	if a.doc == b.doc {
		return first, b.path
	}
	return first, strings.TrimPrefix(second, p.file.path+": ")
}

// contradict adds an error about two fields that contradict each other, unless the file has something else in one of
// them than what it seems to: that is an error already.
func (p *problems) contradict(path, other, format string, values ...any) {
	if p.unread(settingOf(path)) || p.unread(settingOf(other)) {
		return
	}
	first, second := p.origins(path, other)
	p.errs = append(p.errs, fmt.Errorf(format, append([]any{first, second}, values...)...))
}

// unread tells whether the file has a value of a setting that is of the wrong type.
func (p *problems) unread(s setting) bool {
	return p.file != nil && p.file.unread[s.doc][s.path] && !p.flags[s.flag]
}
