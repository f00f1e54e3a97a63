package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const intro = `portald
Copyright 2026 The portald authors

portald is licensed under the Apache License, Version 2.0: see LICENSE.

The programs of a release have the modules built in that are listed here. What follows the list are their notices and the
texts of their licences; that of the Apache License is in LICENSE. This file is made by "make notice".

`

const rule = "--------------------------------------------------------------------------------\n"

// notice is the text of NOTICE. Modules with the same text share it.
func notice(modules []*linked, terms map[string][]string) []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	width := 0
	for _, m := range modules {
		width = max(width, len(m.title()))
	}
	for _, m := range modules {
		names := map[string]bool{}
		for _, text := range m.files {
			for _, name := range terms[string(text)] {
				names[name] = true
			}
		}
		fmt.Fprintf(&b, "%-*s  %s\n", width, m.title(), strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
	for _, text := range shared(modules, func(m *linked) map[string][]byte { return m.notices }) {
		text.write(&b, "Notice of")
	}
	for _, text := range shared(modules, func(m *linked) map[string][]byte { return m.files }) {
		if !isPlainApache(text.text, terms) {
			text.write(&b, "Licence of")
		}
	}
	return b.Bytes()
}

// isPlainApache tells whether a text is that of LICENSE and no more, but for how it tells to fill in whose it is.
func isPlainApache(text string, terms map[string][]string) bool {
	return slices.Equal(terms[text], []string{"Apache-2.0"}) &&
		strings.HasPrefix(strings.TrimSpace(text), "Apache License") && !owned(text)
}

// owned tells whether the appendix of the Apache License names somebody, who is to be named then.
func owned(text string) bool {
	_, after, _ := strings.Cut(text, "APPENDIX")
	for line := range strings.Lines(after) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "Copyright") && !strings.ContainsAny(line, "{[") {
			return true
		}
	}
	return false
}

func (m *linked) title() string { return strings.TrimSpace(m.name + " " + m.version) }

// sharedText is a text, and the modules whose it is.
type sharedText struct {
	text string
	of   []string
}

// shared groups texts, in the order of modules.
func shared(modules []*linked, of func(*linked) map[string][]byte) []*sharedText {
	var all []*sharedText
	at := map[string]*sharedText{}
	for _, m := range modules {
		files := of(m)
		for _, path := range slices.Sorted(maps.Keys(files)) {
			text := string(files[path])
			s := at[text]
			if s == nil {
				s = &sharedText{text: text}
				at[text] = s
				all = append(all, s)
			}
			name := m.title()
			if strings.Contains(path, "/") {
				name += ", " + path
			}
			if !slices.Contains(s.of, name) {
				s.of = append(s.of, name)
			}
		}
	}
	return all
}

func (s *sharedText) write(b *bytes.Buffer, what string) {
	fmt.Fprintf(b, "\n%s%s %s:\n\n", rule, what, strings.Join(s.of, ",\n  "))
	for line := range strings.Lines(strings.Trim(strings.ReplaceAll(s.text, "\r\n", "\n"), "\n")) {
		b.WriteString(strings.TrimRight(line, " \t\n") + "\n")
	}
}
