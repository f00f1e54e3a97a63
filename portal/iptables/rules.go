package iptables

import (
	"bytes"
	"fmt"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
)

// Render returns the rules of portals as input of iptables-restore and ip6tables-restore on a host without any of
// ours: for each family nat, filter and, if it is not empty, mangle, below a comment that names the command. It does
// not touch the host. Portals that no rule can express are left out and named in the error.
func Render(
	o Options, portals []portal.Portal, open map[portal.ProxyPort]bool, checks map[uint16]bool,
) ([]byte, error) {
	names, err := o.complete()
	if err != nil {
		return nil, err
	}
	valid, invalid := writer.Valid(portals, o.Limits().Check)
	var b bytes.Buffer
	for _, ip := range inet.Families() {
		h, err := newHost(familyOf(ip), names, o)
		if err != nil {
			return nil, err
		}
		h.adopt(o.Settings)
		h.guard(open)
		h.open(checks)
		h.put(valid)
		h.spread(h.tables()...)
		fmt.Fprintf(&b, "# %s --noflush\n", h.restore)
		for _, t := range h.tables() {
			if t == h.mangle && !t.inUse() {
				continue
			}
			b.Write(t.sync(saved{}).text())
		}
	}
	return b.Bytes(), invalid
}
