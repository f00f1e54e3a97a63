package ipvs

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Show implements portal.Writer: virtual servers and endpoints as ipvsadm saves them, elements of sets as ipset does,
// and what the Rules show. The last column of an endpoint is how many connections it has.
func (w *Writer) Show(ctx context.Context, portals []portal.Portal) (shown portal.Shown, err error) {
	var rest []portal.Portal
	v := view{Options: &w.Options, names: w.names, to: &shown}
	for _, p := range portals {
		if spreads(p) {
			v.portals = append(v.portals, p)
		} else {
			rest = append(rest, p)
		}
	}
	if len(rest) > 0 {
		if shown, err = w.Rules.Show(ctx, rest); err != nil {
			return shown, err
		}
	}
	if len(v.portals) == 0 {
		return shown, nil
	}
	if v.kernel, err = w.look(); err != nil { // the Writer's own is in use
		return shown, err
	}
	defer v.close()
	return shown, v.show(w.live.Settings().NodePortAddresses, w.live.Settings().LocalDetector.PodsKnown())
}

// view is a look at the kernel.
type view struct {
	*Options
	kernel
	names   names
	portals []portal.Portal
	to      *portal.Shown
}

func (v *view) lack(format string, args ...any) {
	v.to.Missing = append(v.to.Missing, fmt.Sprintf(format, args...))
}

func (v *view) show(nodePorts []netip.Prefix, podsKnown bool) error {
	device, others, err := v.hostAddresses()
	if err != nil {
		return err
	}
	all, err := v.virtualServers()
	if err != nil {
		return err
	}
	node := newLocalNode(others, nodePorts)
	node.masquerade, node.podsKnown = v.Masquerade, podsKnown
	wanted := map[setID][]entry{}
	for _, p := range v.portals {
		for _, f := range node.servers(p.Frontend) {
			addr := f.Addr.Addr()
			if !node.own[addr] && !slices.Contains(device, addr) {
				v.lack("address %s on device %s", addr, v.names.device)
			}
			if err := v.showServer(f, v.server(p, node.forwarding(p)), all); err != nil {
				return err
			}
			wanted[served] = append(wanted[served], atFrontend(served, f))
		}
		for _, e := range node.entries(p) {
			wanted[e.id] = append(wanted[e.id], e)
		}
	}
	return v.showEntries(wanted)
}

// showServer adds a virtual server and its endpoints.
func (v *view) showServer(f service.Frontend, wanted server, all map[service.Frontend]settings) error {
	installed, there := all[f]
	if !there {
		v.lack("virtual server %s", f)
		return nil
	}
	if installed != wanted.settings {
		v.lack("virtual server %s is set otherwise than it was written", f)
	}
	option := map[inet.Protocol]string{inet.TCP: "-t ", inet.UDP: "-u ", inet.SCTP: "--sctp-service "}
	at := option[f.Protocol] + f.Addr.String()
	v.to.Add("ipvsadm -S -n", "-A "+at+" -s "+installed.scheduler+installed.options())
	ends, err := v.destinations(f)
	if err != nil {
		return err
	}
	weights := map[netip.AddrPort]int{}
	for _, d := range ends {
		weights[d.addr] = d.weight
		v.to.Add("ipvsadm -S -n", fmt.Sprintf("-a %s -r %s -m -w %d (%d connections)", at, d.addr, d.weight, d.conns))
	}
	for addr, weight := range wanted.weights {
		if is, there := weights[addr]; !there || is != weight {
			v.lack("endpoint %s of virtual server %s, with weight %d", addr, f, weight)
		}
	}
	return nil
}

// showEntries adds the elements of sets, and names those that are not there.
func (v *view) showEntries(wanted map[setID][]entry) error {
	for _, s := range v.names.sets() {
		mine := slices.DeleteFunc(slices.Clone(wanted[s.id]), func(e entry) bool { return e.family != s.family })
		if len(mine) == 0 {
			continue
		}
		slices.SortFunc(mine, entry.compare)
		elements, _, err := v.elementsOf(s)
		if err != nil {
			return err
		}
		for _, e := range slices.Compact(mine) {
			if slices.Contains(elements, e.element) {
				v.to.Add("ipset list", "add "+s.name+" "+e.text())
			} else {
				v.lack("element %s of set %s", e.text(), s.name)
			}
		}
	}
	return nil
}

// text is the element as ipset prints it.
func (e element) text() string {
	if !e.addr.IsValid() {
		return e.client.String()
	}
	text := e.addr.String()
	if e.port != 0 {
		text += fmt.Sprintf(",%s:%d", e.protocol, e.port)
	}
	switch {
	case e.client.IsSingleIP():
		text += "," + e.client.Addr().String()
	case e.client.IsValid():
		text += "," + e.client.String()
	}
	return text
}
