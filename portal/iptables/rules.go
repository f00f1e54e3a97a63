package iptables

import (
	"bytes"
	"fmt"

	"github.com/portald/portald/portal"
)

// Render returns the rules of portals as iptables-restore and ip6tables-restore take them, on a host without any of ours:
// for each family nat, filter and, if there is something in it, mangle, under a comment that names the command. It needs
// no host. Portals that no rule can express are left out and named in the error.
func Render(o Options, portals []portal.Portal, open map[portal.ProxyPort]bool) ([]byte, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	names, err := newChains(o.Prefix, o.ExtraNames)
	if err != nil {
		return nil, err
	}
	sound, unsound := o.limits().Sound(portals)
	var b bytes.Buffer
	for _, f := range []family{ipv4(), ipv6()} {
		h, err := newHost(f, names, o)
		if err != nil {
			return nil, err
		}
		h.adopt(portal.Settings{Inside: o.Inside, NodePortAddresses: o.NodePortAddresses, Mark: o.Mark})
		h.guard(open)
		h.put(sound)
		h.spread(h.tables()...)
		fmt.Fprintf(&b, "# %s --noflush\n", h.restore)
		for _, t := range h.tables() {
			if t == h.mangle && !t.inUse() {
				continue
			}
			b.Write(t.sync(saved{}).text())
		}
	}
	return b.Bytes(), unsound
}
