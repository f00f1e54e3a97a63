package nftables

import "github.com/portald/portald/platform/nfnl"

// tableMessage creates or deletes the table.
func (t *table) tableMessage(kind uint16) nfnl.Message {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_TABLE_NAME, t.name)
	return nfnl.Request(kind, choose(kind == nfnl.NFT_MSG_NEWTABLE, nfnl.Create, 0), t.number, a)
}

// chainMessage creates a chain.
func (t *table) chainMessage(c chain) nfnl.Message {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_CHAIN_TABLE, t.name)
	a.String(nfnl.NFTA_CHAIN_NAME, c.name)
	if h := c.hook; h != nil {
		a.Nest(nfnl.NFTA_CHAIN_HOOK, func() {
			a.Uint32(nfnl.NFTA_HOOK_HOOKNUM, hookNumbers()[h.at])
			a.Uint32(nfnl.NFTA_HOOK_PRIORITY, uint32(h.priority))
		})
		a.Uint32(nfnl.NFTA_CHAIN_POLICY, nfnl.NF_ACCEPT)
		a.String(nfnl.NFTA_CHAIN_TYPE, h.kind)
	}
	return nfnl.Request(nfnl.NFT_MSG_NEWCHAIN, nfnl.Create, t.number, a)
}

// ruleMessages append a chain's rules, with the anonymous sets that these need.
func (t *table) ruleMessages(c chain) []nfnl.Message {
	var out []nfnl.Message
	for _, r := range c.rules {
		p := t.encode(r, &t.ids)
		out = append(out, t.anonymousMessages(p)...)
		var a nfnl.Attributes
		a.String(nfnl.NFTA_RULE_TABLE, t.name)
		a.String(nfnl.NFTA_RULE_CHAIN, c.name)
		a.List(nfnl.NFTA_RULE_EXPRESSIONS, p.expressions)
		a.Bytes(nfnl.NFTA_RULE_USERDATA, t.digest(r, p).userdata())
		out = append(out, nfnl.Request(nfnl.NFT_MSG_NEWRULE, nfnl.Create|nfnl.Append, t.number, a))
	}
	return out
}

// anonymousMessages create the sets of a rule.
func (t *table) anonymousMessages(p *program) (out []nfnl.Message) {
	for _, s := range p.anonymous {
		out = append(append(out, t.declareAnonymous(s)), t.fillAnonymous(s)...)
	}
	return out
}

// flushMessage deletes the rules of a chain.
func (t *table) flushMessage(chain string) nfnl.Message {
	return t.named(nfnl.NFT_MSG_DELRULE, nfnl.NFTA_RULE_TABLE, nfnl.NFTA_RULE_CHAIN, chain)
}

// flushSetMessage deletes the elements of a set.
func (t *table) flushSetMessage(set string) nfnl.Message {
	return t.named(nfnl.NFT_MSG_DELSETELEM, nfnl.NFTA_SET_ELEM_LIST_TABLE, nfnl.NFTA_SET_ELEM_LIST_SET, set)
}

func (t *table) dropChainMessage(chain string) nfnl.Message {
	return t.named(nfnl.NFT_MSG_DELCHAIN, nfnl.NFTA_CHAIN_TABLE, nfnl.NFTA_CHAIN_NAME, chain)
}

func (t *table) dropSetMessage(set string) nfnl.Message {
	return t.named(nfnl.NFT_MSG_DELSET, nfnl.NFTA_SET_TABLE, nfnl.NFTA_SET_NAME, set)
}

// named is a message about something in the table by its name.
func (t *table) named(kind, tableAttribute, nameAttribute uint16, name string) nfnl.Message {
	var a nfnl.Attributes
	a.String(tableAttribute, t.name)
	a.String(nameAttribute, name)
	return nfnl.Request(kind, 0, t.number, a)
}
