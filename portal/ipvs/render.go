package ipvs

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Render returns what IPVS would hold of portals, as text for the commands that could write it, each part below a
// line that names its command. Portals that are for rules have no part but their addresses: the Rules render them,
// and Chains. Node ports are those at Options.NodeAddresses.
func Render(o Options, portals []portal.Portal) ([]byte, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	w := newWriter(o, kernel{})
	w.v6 = true
	w.adopt(slices.SortedFunc(slices.Values(o.NodeAddresses), netip.Addr.Compare))
	valid, err := w.valid(portals)
	w.countPods()
	for _, p := range valid {
		w.put(p)
	}
	for _, f := range w.frontends() {
		if s, ok := w.wanted(f); ok {
			w.servers[f] = &s
			w.countServer(f, 1)
		}
	}
	var b bytes.Buffer
	w.renderAddresses(&b)
	w.renderSets(&b)
	w.renderServers(&b)
	return b.Bytes(), err
}

func (w *Writer) renderAddresses(b *bytes.Buffer) {
	fmt.Fprintf(b, "# ip -batch -\nlink add %s type dummy\n", w.names.device)
	for _, addr := range slices.SortedFunc(slices.Values(w.addrs.Added()), netip.Addr.Compare) {
		nodad := ""
		if addr.Is6() {
			nodad = " nodad"
		}
		fmt.Fprintf(b, "address add %s dev %s%s\n", single(addr), w.names.device, nodad)
	}
}

func (w *Writer) renderSets(b *bytes.Buffer) {
	b.WriteString("# ipset restore\n")
	for _, s := range w.names.allSets() {
		family, timeout := "inet", ""
		if s.family == inet.IPv6 {
			family = "inet6"
		}
		if s.timeout > 0 {
			timeout = fmt.Sprintf(" timeout %d", s.timeout/time.Second)
		}
		fmt.Fprintf(b, "create %s %s family %s maxelem %d%s\n", s.name, s.typ, family, maxElements, timeout)
	}
	for _, e := range slices.SortedFunc(slices.Values(w.elements.Added()), entry.compare) {
		fmt.Fprintf(b, "add %s %s\n", w.names.set(e.id, e.family), e.element)
	}
}

// String is the element as ipset writes it.
func (e element) String() string {
	port := strconv.Itoa(int(e.port))
	switch {
	case !e.addr.IsValid():
		return e.client.String()
	case e.port == 0:
		return e.addr.String()
	case !e.client.IsValid():
		return fmt.Sprintf("%s,%s:%s", e.addr, e.protocol, port)
	case e.client.IsSingleIP():
		return fmt.Sprintf("%s,%s:%s,%s", e.addr, e.protocol, port, e.client.Addr())
	}
	return fmt.Sprintf("%s,%s:%s,%s", e.addr, e.protocol, port, e.client)
}

func (w *Writer) renderServers(b *bytes.Buffer) {
	b.WriteString("# ipvsadm --restore\n")
	kinds := map[inet.Protocol]string{inet.TCP: "-t", inet.UDP: "-u", inet.SCTP: "--sctp-service"}
	for _, f := range slices.SortedFunc(maps.Keys(w.servers), service.Frontend.Compare) {
		s, front := w.servers[f], kinds[f.Protocol]+" "+f.Addr.String()
		fmt.Fprintf(b, "-A %s -s %s%s\n", front, s.scheduler, s.options())
		for _, addr := range ordered(s.weights) {
			fmt.Fprintf(b, "-a %s -r %s -m -w %d\n", front, addr, s.weights[addr])
		}
	}
}

// options are the settings as options of ipvsadm.
func (s settings) options() (out string) {
	if s.flags&persistent != 0 {
		out += " -p " + strconv.Itoa(int(s.timeout))
	}
	var of []string
	for _, flag := range []struct {
		bit  uint32
		name string
	}{{fallback, "-fallback"}, {mhPort, "-port"}} {
		if s.flags&flag.bit != 0 {
			of = append(of, s.scheduler+flag.name)
		}
	}
	if len(of) > 0 {
		out += " -b " + strings.Join(of, ",")
	}
	return out
}
