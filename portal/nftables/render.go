package nftables

import (
	"bytes"
	"fmt"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
)

// Render returns what a Writer with these options writes for portals, as text for nft -f, which replaces the tables of
// both families. It does not depend on the host. Portals that no rule can express are left out and named in the error.
func Render(o Options, portals []portal.Portal, open map[portal.ProxyPort]bool) ([]byte, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	valid, invalid := writer.Valid(portals, o.Limits().Check)
	var b bytes.Buffer
	for _, ip := range inet.Families() {
		f := familyOf(ip)
		r, err := o.rules(f)
		if err != nil {
			return nil, err
		}
		r.adopt(o.Settings, o.ServiceCIDRs)
		_, c := build(r, valid, open)
		fmt.Fprintf(&b, "# %s\n", f.ip)
		fmt.Fprintf(&b, "add table %s %s\ndelete table %[1]s %[2]s\n", f.word, o.Table)
		c.text(&b, f, o.Table)
	}
	return b.Bytes(), invalid
}

// text writes a changeset from no table.
func (c *changeset) text(b *bytes.Buffer, f family, table string) {
	fmt.Fprintf(b, "table %s %s {\n", f.word, table)
	elements := map[string][]string{}
	for _, e := range c.add {
		elements[e.set.name] = append(elements[e.set.name], e.set.elementText(e.element, e.value))
	}
	for _, s := range c.createSets {
		b.WriteString(s.text(elements[s.name]))
	}
	for _, chain := range c.writeChains {
		chain.text(b, f)
	}
	b.WriteString("}\n")
}

func (c chain) text(b *bytes.Buffer, f family) {
	fmt.Fprintf(b, "\tchain %s {\n", c.name)
	if c.hook != nil {
		fmt.Fprintf(b, "\t\ttype %s hook %s priority %d; policy accept;\n", c.hook.kind, c.hook.at, c.hook.priority)
	}
	for _, r := range c.rules {
		fmt.Fprintf(b, "\t\t%s\n", r.text(f))
	}
	b.WriteString("\t}\n")
}
