package iptables

import (
	"bytes"
	"strings"
)

// saved is one table of a host, as iptables-save printed it.
type saved struct {
	chains ruleset   // ours
	jumps  []foreign // rules in chains of others that jump to ours, in order
}

// parseSaved reads the text of one table, but rules of others that do not jump to our chains.
func (c chains) parseSaved(text []byte) saved {
	s := saved{chains: ruleset{}}
	grown := map[string]*strings.Builder{}
	for line := range bytes.Lines(text) {
		line := string(bytes.TrimRight(line, "\n"))
		if name, ok := strings.CutPrefix(line, ":"); ok {
			name, _, _ = strings.Cut(name, " ")
			if at, ours := c.depthOf(name); ours {
				grown[name], s.chains[name] = &strings.Builder{}, chain{depth: at}
			}
			continue
		}
		rest, ok := strings.CutPrefix(line, "-A ")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, " ")
		if b := grown[name]; b != nil {
			b.WriteString(line)
			b.WriteByte('\n')
		} else if strings.Contains(line, c.prefix) && c.own(destination(line)) {
			s.jumps = append(s.jumps, foreign{name, line})
		}
	}
	for name, b := range grown {
		s.chains.add(name, s.chains[name].depth, b.String())
	}
	return s
}

// section is the part of one table in the text of several; nil when it is not among them.
func section(text []byte, table string) []byte {
	_, from, ok := bytes.Cut(append([]byte("\n"), text...), []byte("\n*"+table+"\n"))
	if !ok {
		return nil
	}
	part, _, _ := bytes.Cut(from, []byte("\nCOMMIT"))
	return part
}

// destination is the chain or target that a rule jumps to.
func destination(rule string) string {
	words := strings.Fields(unquoted(rule))
	for i, word := range words[:max(0, len(words)-1)] {
		if word == "-j" || word == "-g" {
			return words[i+1]
		}
	}
	return ""
}

// unquoted removes quoted text: a comment or a log prefix may read like an option.
func unquoted(rule string) string {
	var b strings.Builder
	quoted, escaped := false, false
	for _, c := range rule {
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted:
			b.WriteRune(c)
		}
	}
	return b.String()
}
