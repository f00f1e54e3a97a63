package netshtest

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// show returns the output of a command that changes nothing.
func (n *Netsh) show(c command, interfaces []Interface) (string, error) {
	switch c.object {
	case "interfaces":
		return n.showInterfaces(interfaces), nil
	case "excludedportrange":
		return n.showExcluded(c)
	}
	var out strings.Builder
	for _, i := range interfaces {
		if c.device == "" || strings.EqualFold(c.device, i.Name) || c.device == strconv.Itoa(i.Index) {
			out.WriteString(n.showAddresses(i, c.v6))
		}
	}
	if out.Len() == 0 {
		return "", saidError(NoInterface)
	}
	return out.String(), nil
}

// showAddresses is a block of one interface: labels from column 5, values from column 43.
func (n *Netsh) showAddresses(i Interface, v6 bool) string {
	t := n.Language.texts()
	out := "\r\n" + fmt.Sprintf(t.configuration, i.Name) + "\r\n" + row(t.dhcp, t.no)
	for _, a := range i.Addresses {
		addr, subnet := a.Prefix.Addr(), a.Prefix.Masked()
		if addr.Is6() != v6 {
			continue
		}
		out += row(t.address, addr.String())
		if addr.Is4() {
			out += "    " + fmt.Sprintf(t.subnet, subnet, maskOf(subnet.Bits())) + "\r\n"
		}
	}
	return out + row(t.metric, "15") + "\r\n"
}

func row(label, value string) string {
	return "    " + label + strings.Repeat(" ", max(38-utf8.RuneCountInString(label), 1)) + value + "\r\n"
}

func (n *Netsh) showInterfaces(interfaces []Interface) string {
	t := n.Language.texts()
	out := "\r\n" + t.interfaces + "\r\n---  ----------  ----------  ------------  ---------------------------\r\n"
	for _, i := range interfaces {
		out += fmt.Sprintf("%3d          15        1500  %-12s  %s\r\n", i.Index, t.connected, i.Name)
	}
	return out + "\r\n"
}

func (n *Netsh) showExcluded(c command) (string, error) {
	if c.proto != "tcp" && c.proto != "udp" {
		return "", missing
	}
	out := "\r\n" + fmt.Sprintf(n.Language.texts().excluded, c.proto) + "----------    --------      \r\n"
	m, _ := n.Host.(*Memory)
	if m == nil {
		return out + "\r\n", nil
	}
	for _, r := range m.Excluded {
		if r.Protocol == c.proto && (r.Family == "ipv6") == c.v6 {
			out += fmt.Sprintf("%10d    %8d      \r\n", r.First, r.Last)
		}
	}
	return out + "\r\n", nil
}
