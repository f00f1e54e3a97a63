package nft

import "github.com/portald/portald/platform/nfnl"

// Table makes the messages about one table. Its anonymous sets have ids of their own in each of them.
type Table struct {
	Family Family
	Name   string
	ids    uint32 // the last id of an anonymous set
}

func NewTable(f Family, name string) *Table { return &Table{Family: f, Name: name} }

// Create creates the table, and remove deletes it with all that it has.
func (t *Table) Create() nfnl.Message { return t.message(nfnl.NFT_MSG_NEWTABLE) }
func (t *Table) Remove() nfnl.Message { return t.message(nfnl.NFT_MSG_DELTABLE) }

func (t *Table) message(kind uint16) nfnl.Message {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_TABLE_NAME, t.Name)
	return nfnl.Request(kind, choose(kind == nfnl.NFT_MSG_NEWTABLE, nfnl.Create, 0), t.Family.Number, a)
}

// CreateChain creates a chain.
func (t *Table) CreateChain(c Chain) nfnl.Message {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_CHAIN_TABLE, t.Name)
	a.String(nfnl.NFTA_CHAIN_NAME, c.Name)
	if h := c.Hook; h != nil {
		a.Nest(nfnl.NFTA_CHAIN_HOOK, func() {
			a.Uint32(nfnl.NFTA_HOOK_HOOKNUM, hookNumbers()[h.At])
			a.Uint32(nfnl.NFTA_HOOK_PRIORITY, uint32(h.Priority))
		})
		a.Uint32(nfnl.NFTA_CHAIN_POLICY, nfnl.NF_ACCEPT)
		a.String(nfnl.NFTA_CHAIN_TYPE, h.Kind)
	}
	return nfnl.Request(nfnl.NFT_MSG_NEWCHAIN, nfnl.Create, t.Family.Number, a)
}

// AppendRules append a chain's rules, with the anonymous sets that these need.
func (t *Table) AppendRules(c Chain) []nfnl.Message {
	var out []nfnl.Message
	for _, r := range c.Rules {
		p := t.Family.encode(r, &t.ids)
		out = append(out, t.anonymousMessages(p)...)
		var a nfnl.Attributes
		a.String(nfnl.NFTA_RULE_TABLE, t.Name)
		a.String(nfnl.NFTA_RULE_CHAIN, c.Name)
		a.List(nfnl.NFTA_RULE_EXPRESSIONS, p.expressions)
		a.Bytes(nfnl.NFTA_RULE_USERDATA, t.digest(r, p).userdata())
		out = append(out, nfnl.Request(nfnl.NFT_MSG_NEWRULE, nfnl.Create|nfnl.Append, t.Family.Number, a))
	}
	return out
}

// anonymousMessages create the sets of a rule.
func (t *Table) anonymousMessages(p *program) (out []nfnl.Message) {
	for _, s := range p.anonymous {
		out = append(append(out, t.createAnonymous(s)), t.fillAnonymous(s)...)
	}
	return out
}

// FlushChain deletes the rules of a chain.
func (t *Table) FlushChain(chain string) nfnl.Message {
	return t.named(nfnl.NFT_MSG_DELRULE, nfnl.NFTA_RULE_TABLE, nfnl.NFTA_RULE_CHAIN, chain)
}

// FlushSet deletes the elements of a set.
func (t *Table) FlushSet(set string) nfnl.Message {
	return t.named(nfnl.NFT_MSG_DELSETELEM, nfnl.NFTA_SET_ELEM_LIST_TABLE, nfnl.NFTA_SET_ELEM_LIST_SET, set)
}

func (t *Table) DeleteChain(chain string) nfnl.Message {
	return t.named(nfnl.NFT_MSG_DELCHAIN, nfnl.NFTA_CHAIN_TABLE, nfnl.NFTA_CHAIN_NAME, chain)
}

func (t *Table) DeleteSet(set string) nfnl.Message {
	return t.named(nfnl.NFT_MSG_DELSET, nfnl.NFTA_SET_TABLE, nfnl.NFTA_SET_NAME, set)
}

// named is a message about something in the table by its name.
func (t *Table) named(kind, tableAttribute, nameAttribute uint16, name string) nfnl.Message {
	var a nfnl.Attributes
	a.String(tableAttribute, t.Name)
	a.String(nameAttribute, name)
	return nfnl.Request(kind, 0, t.Family.Number, a)
}
