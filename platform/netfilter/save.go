package netfilter

import (
	"strings"
)

// hooked has the kernel's hook and priority of iptables' built-in chains.
type hooked struct {
	hook     Hook
	priority int
	kind     string
}

// builtIn returns the hook, priority and type of a built-in chain; false: rules jump to the chain.
func builtIn(table, chain string) (hooked, bool) {
	hook, ok := map[string]Hook{
		"PREROUTING": Prerouting, "INPUT": Input, "FORWARD": Forward, "OUTPUT": Output, "POSTROUTING": Postrouting,
	}[chain]
	if !ok {
		return hooked{}, false
	}
	h := hooked{hook: hook, kind: "filter"}
	switch table {
	case "raw":
		h.priority = priorityRaw
	case "mangle":
		h.priority = priorityMangle
	case "security":
		h.priority = prioritySecurity
	case "nat":
		h.priority, h.kind = PriorityNAT, "nat"
		if hook == Input || hook == Postrouting {
			h.priority = prioritySource
		}
	}
	return h, true
}

// ParseSaved reads what iptables-save prints; family is ip or ip6. Lines that it does not know are passed over.
func ParseSaved(text string, program Program, family string) []*Table {
	var tables []*Table
	chains := map[string]*Chain{} // of the current table
	var rules []string
	finish := func() {
		for _, line := range rules {
			words := split(line)
			if c := chains[words[1]]; c != nil {
				c.Rules = append(c.Rules, parseRule(line, words[2:], chains))
			}
		}
		rules = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "*"):
			finish()
			chains = map[string]*Chain{}
			tables = append(tables, &Table{Program: program, Family: family, Name: line[1:]})
		case strings.HasPrefix(line, ":") && len(tables) > 0:
			c := declared(tables[len(tables)-1], strings.Fields(line[1:]))
			chains[c.Name] = c
		case strings.HasPrefix(line, "-A ") && len(split(line)) > 2:
			rules = append(rules, line) // a rule may jump to a chain that is declared behind it
		}
	}
	finish()
	return tables
}

// declared adds a chain of ":NAME POLICY [packets:bytes]".
func declared(t *Table, words []string) *Chain {
	c := &Chain{Table: t, Policy: Accept}
	if len(words) > 0 {
		c.Name = words[0]
	}
	if h, ok := builtIn(t.Name, c.Name); ok {
		c.Hook, c.Priority, c.Type = h.hook, h.priority, h.kind
	}
	if len(words) > 1 && words[1] == "DROP" {
		c.Policy = Drop
	}
	t.Chains = append(t.Chains, c)
	return c
}

// split divides a line into words at blanks; a word in double quotes may hold blanks, and quotes behind a backslash.
func split(line string) (words []string) {
	var word strings.Builder
	var quoted, escaped, some bool
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quoted:
			escaped = true
		case r == '"':
			quoted, some = !quoted, true
		case r == ' ' && !quoted:
			if some {
				words = append(words, word.String())
			}
			word.Reset()
			some = false
		default:
			word.WriteRune(r)
			some = true
		}
	}
	if some {
		words = append(words, word.String())
	}
	return words
}

// parseRule reads the words of a rule behind "-A CHAIN".
func parseRule(line string, words []string, chains map[string]*Chain) *Rule {
	a := Action{Kind: Continue}
	for len(words) > 0 {
		inverted := words[0] == "!"
		if inverted {
			words = words[1:]
		}
		if len(words) == 0 {
			break
		}
		option, rest := words[0], words[1:]
		n := 0
		if option == "--comment" && len(rest) > 0 {
			n = 1 // whatever it begins with
		}
		for option != "--comment" && n < len(rest) && rest[n] != "!" && !strings.HasPrefix(rest[n], "-") {
			n++
		}
		values := rest[:n]
		words = rest[n:]
		if option == "-j" || option == "-g" {
			a.target(option, values, words, chains)
			break // what follows is the target's
		}
		if c := saveCondition(option, values, inverted); c != nil {
			a.when = append(a.when, c)
		}
	}
	return &Rule{Text: line, Actions: []Action{a}}
}

// target sets what a rule does.
func (a *Action) target(option string, values, options []string, chains map[string]*Chain) {
	if len(values) == 0 {
		return
	}
	name := values[0]
	if _, ok := chains[name]; ok {
		a.Kind, a.Chain = choose(option == "-g", Goto, Jump), name
		return
	}
	kinds := map[string]Kind{
		"ACCEPT": Accept, "DROP": Drop, "REJECT": Reject, "RETURN": Return, "DNAT": Translate, "REDIRECT": Translate,
		"NETMAP": Translate, "TPROXY": Divert, "NOTRACK": Untrack, "NFQUEUE": Queue, "QUEUE": Queue, "TARPIT": Drop,
		"STEAL": Drop,
	}
	if kind, ok := kinds[name]; ok {
		a.Kind = kind
	}
	if name == "CT" && len(options) > 0 && options[0] == "--notrack" {
		a.Kind = Untrack
	}
}
