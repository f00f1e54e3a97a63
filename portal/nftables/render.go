package nftables

import (
	"bytes"
	"fmt"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
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
		f := nft.FamilyOf(ip)
		r, err := o.rules(f)
		if err != nil {
			return nil, err
		}
		r.Configure(o.Settings, o.ServiceCIDRs)
		_, c := build(r, valid, open)
		fmt.Fprintf(&b, "# %s\n", f.IP)
		fmt.Fprintf(&b, "add table %s %s\ndelete table %[1]s %[2]s\n", f.Word, o.Table)
		c.text(&b, f, o.Table)
	}
	return b.Bytes(), invalid
}

// text writes a changeset from no table.
func (c *changeset) text(b *bytes.Buffer, f nft.Family, table string) {
	fmt.Fprintf(b, "table %s %s {\n", f.Word, table)
	elements := map[string][]string{}
	for _, e := range c.add {
		elements[e.Set.Name] = append(elements[e.Set.Name], e.Set.ElementText(e.Element, e.Value))
	}
	for _, s := range c.createSets {
		b.WriteString(s.Text(elements[s.Name]))
	}
	for _, chain := range c.writeChains {
		chain.Text(b, f)
	}
	b.WriteString("}\n")
}
