package netfilter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// listing is the output of nft --json: objects, each with one field that names its kind.
type listing struct {
	Objects []struct {
		Chain *listedChain `json:"chain"`
		Rule  *listedRule  `json:"rule"`
		Set   *listedSet   `json:"set"`
		Map   *listedSet   `json:"map"`
	} `json:"nftables"`
}

type listedChain struct {
	Name, Type, Hook, Policy string
	Priority                 int `json:"prio"`
}

type listedRule struct {
	Chain       string
	Handle      uint64
	Expressions []map[string]json.RawMessage `json:"expr"`
}

type listedSet struct {
	Name     string
	Elements elements `json:"elem"`
}

// elements are a set's elements, or a map's pairs of keys and data.
type elements []json.RawMessage

func parseListing(text []byte) (listing, error) {
	var l listing
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("nft prints JSON that cannot be read: %w", err)
	}
	return l, nil
}

// fill adds the chains of "list table". Text is the same as text, by handles.
func (t *Table) fill(l listing, text map[uint64]string) {
	t.sets = map[string]elements{}
	for _, o := range l.Objects {
		if o.Chain != nil {
			t.Chains = append(t.Chains, o.Chain.chain(t))
		}
		for _, s := range []*listedSet{o.Set, o.Map} {
			if s != nil {
				t.sets[s.Name] = s.Elements
			}
		}
	}
	for _, o := range l.Objects {
		if o.Rule == nil {
			continue
		}
		if c := t.Chain(o.Rule.Chain); c != nil {
			shown := cmp.Or(text[o.Rule.Handle], fmt.Sprintf("handle %d", o.Rule.Handle))
			c.Rules = append(c.Rules, &Rule{Text: shown, Actions: t.actions(o.Rule.Expressions)})
		}
	}
}

func (l *listedChain) chain(t *Table) *Chain {
	return &Chain{
		Table: t, Name: l.Name, Hook: Hook(l.Hook), Type: l.Type, Priority: l.Priority,
		Policy: choose(l.Policy == "drop", Drop, Accept),
	}
}

var ruleForm = regexp.MustCompile(`^\t\t(.*) # handle (\d+)$`)

// parseText returns the rules of a listing of one table as text by their handles.
func parseText(text string) map[uint64]string {
	out := map[uint64]string{}
	for line := range strings.Lines(text) {
		if m := ruleForm.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			var handle uint64
			fmt.Sscan(m[2], &handle) // digits
			out[handle] = m[1]
		}
	}
	return out
}

// actions returns the actions of a rule.
func (t *Table) actions(expressions []map[string]json.RawMessage) (out []Action) {
	var when []condition
	for _, x := range expressions {
		for name, value := range x {
			switch kind, decides := kindOf(name); {
			case name == "match":
				when = append(when, t.match(value))
			case name == "vmap":
				out = append(out, t.branches(when, value)...)
			case decides:
				out = append(out, Action{Kind: kind, Chain: targetOf(value), when: when})
			case name == "limit" || name == "xt" || name == "ct count":
				when = append(when, unknown)
			}
		}
	}
	return out
}

// kindOf returns what a statement does; false: nothing that decides where the packet goes.
func kindOf(statement string) (Kind, bool) {
	kind, ok := map[string]Kind{
		"accept": Accept, "drop": Drop, "reject": Reject, "queue": Queue, "dnat": Translate, "redirect": Translate,
		"tproxy": Divert, "notrack": Untrack, "jump": Jump, "goto": Goto, "return": Return,
	}[statement]
	return kind, ok
}

// targetOf is the chain of a jump.
func targetOf(value json.RawMessage) string {
	var to struct{ Target string }
	_ = json.Unmarshal(value, &to) // other statements have other values, and no target
	return to.Target
}

// branches are the actions of a verdict map.
func (t *Table) branches(when []condition, value json.RawMessage) (out []Action) {
	var m struct{ Key, Data json.RawMessage }
	if json.Unmarshal(value, &m) != nil {
		return nil
	}
	key := parseSubjects(m.Key)
	for _, raw := range t.elementsOf(m.Data) {
		var pair []json.RawMessage
		var verdict map[string]json.RawMessage
		if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[1], &verdict) != nil {
			continue
		}
		for name, value := range verdict {
			if kind, ok := kindOf(name); ok {
				conditions := append(when[:len(when):len(when)], t.compare(key, pair[0], false))
				out = append(out, Action{Kind: kind, Chain: targetOf(value), when: conditions})
			}
		}
	}
	return out
}
