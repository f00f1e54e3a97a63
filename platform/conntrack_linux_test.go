package platform

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
)

// entry is a flow of the kernel's table: protocol, client, whom it writes to, who replies, and whether that one has.
type entry struct {
	protocol        inet.Protocol
	client, to, via string
	replied         bool
}

func (e entry) String() string {
	return fmt.Sprintf("%s %s %s %s %t", e.protocol, e.client, e.to, e.via, e.replied)
}

// add puts it into the kernel's table.
func (e entry) add(t testing.TB) {
	t.Helper()
	client, to, via := netip.MustParseAddrPort(e.client), netip.MustParseAddrPort(e.to), netip.MustParseAddrPort(e.via)
	status := uint32(1 << 3) // confirmed
	if e.replied {
		status |= ipsSeenReply | 1<<2 // assured
	}
	if to != via {
		status |= ipsDstNAT | 1<<8 // done
	}
	b := tuple([]byte{addressFamily(client.Addr()), 0, 0, 0}, nl.CTA_TUPLE_ORIG, byte(e.protocol), client, to)
	b = tuple(b, nl.CTA_TUPLE_REPLY, byte(e.protocol), via, client)
	b = attribute(b, nl.CTA_STATUS, binary.BigEndian.AppendUint32(nil, status))
	b = attribute(b, nl.CTA_TIMEOUT, binary.BigEndian.AppendUint32(nil, 60))
	if e.protocol == inet.TCP {
		state := byte(1) // TCP_CONNTRACK_SYN_SENT
		if e.replied {
			state = 3 // TCP_CONNTRACK_ESTABLISHED
		}
		b = nest(b, nl.CTA_PROTOINFO, func(b []byte) []byte {
			return nest(b, nl.CTA_PROTOINFO_TCP, func(b []byte) []byte {
				return attribute(b, nl.CTA_PROTOINFO_TCP_STATE, []byte{state})
			})
		})
	}
	if e.protocol == inet.SCTP {
		b = nest(b, nl.CTA_PROTOINFO, func(b []byte) []byte {
			return nest(b, 3, func(b []byte) []byte { // CTA_PROTOINFO_SCTP: state, and the tags of both sides
				b = attribute(b, 1, []byte{2})
				b = attribute(b, 2, []byte{0, 0, 0, 1})
				return attribute(b, 3, []byte{0, 0, 0, 2})
			})
		})
	}
	r := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_NEW,
		unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	r.AddRawData(b)
	if _, err := r.Execute(unix.NETLINK_NETFILTER, 0); err != nil {
		t.Fatalf("add %s: %v", e, err)
	}
}

// entries are the entries of the kernel's table.
func entries(t *testing.T) (out []string) {
	t.Helper()
	err := ListFlows(t.Context(), false, func(b []byte) bool {
		f, ok := parseFlow(b)
		client, known := source.of(find(b, nl.CTA_TUPLE_ORIG))
		if !ok || !known {
			t.Errorf("an entry that cannot be read: %x", b)
		}
		e := entry{f.Protocol, client.String(), f.To.String(), f.Replier.String(), f.Replied}
		out = append(out, e.String())
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// A flow of UDP is known for as long as was asked for; one that the kernel does not know is no error.
func TestProlongFlow(t *testing.T) {
	inNamespace(t)
	p, err := NewFlowProlonger()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, e := range []entry{
		{inet.UDP, "192.0.2.1:4000", "10.96.0.10:53", "10.244.0.5:53", true},
		{inet.UDP, "[fd00::1]:4000", "[fd00:96::10]:53", "[fd00:244::5]:53", false},
	} {
		e.add(t)
		client, to := netip.MustParseAddrPort(e.client), netip.MustParseAddrPort(e.to)
		if err := p.Prolong(client, to, 999*time.Second+1); err != nil {
			t.Error(err)
		}
		if err := p.Prolong(to, client, time.Second); err != nil {
			t.Errorf("of one that is not known: %v", err)
		}
	}
	err = ListFlows(t.Context(), false, func(b []byte) bool {
		if left := binary.BigEndian.Uint32(find(b, nl.CTA_TIMEOUT)); left < 900 || left > 1000 {
			t.Errorf("it is known for %d s more", left)
		}
		return true
	})
	if all := entries(t); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

// Flows that a query asks for are offered, no others, and those that are stale are deleted.
func TestDeleteFlows(t *testing.T) {
	const (
		vip4, other4, end4 = "10.96.0.10:53", "10.96.0.11:53", "10.244.0.5:53"
		vip6, other6, end6 = "[fd00:96::10]:53", "[fd00:96::11]:53", "[fd00:244::5]:53"
	)
	all := []entry{
		{inet.UDP, "192.0.2.1:4000", vip4, end4, true},
		{inet.UDP, "192.0.2.2:4000", vip4, end4, false},
		{inet.UDP, "192.0.2.3:4000", vip4, vip4, false},
		{inet.UDP, "192.0.2.4:4000", vip4, vip4, true},
		{inet.UDP, "192.0.2.5:4000", "10.96.0.10:54", end4, true},
		{inet.UDP, "192.0.2.6:4000", other4, end4, true},
		{inet.TCP, "192.0.2.1:4000", vip4, end4, true},
		{inet.TCP, "192.0.2.2:4000", vip4, end4, false},
		{inet.TCP, "192.0.2.3:4000", vip4, vip4, true},
		{inet.TCP, "192.0.2.4:4000", vip4, vip4, false},
		{inet.SCTP, "192.0.2.1:4000", vip4, vip4, false},
		{inet.SCTP, "192.0.2.2:4000", vip4, end4, true},
		{inet.UDP, "[fd00::1]:4000", vip6, end6, true},
		{inet.UDP, "[fd00::2]:4000", vip6, vip6, false},
		{inet.UDP, "[fd00::6]:4000", other6, end6, true},
		{inet.TCP, "[fd00::1]:4000", vip6, vip6, false},
		{inet.TCP, "[fd00::2]:4000", vip6, end6, true},
	}
	udp := func(e entry) bool { return e.protocol == inet.UDP }
	six := func(e entry) bool { return e.to[0] == '[' }
	to := func(addresses ...string) (out []netip.AddrPort) {
		for _, a := range addresses {
			out = append(out, netip.MustParseAddrPort(a))
		}
		return out
	}
	for name, test := range map[string]struct {
		query   inet.FlowQuery
		offered func(entry) bool // all of these are offered
		only    func(entry) bool // and none but these
	}{
		"UDP": {inet.FlowQuery{}, udp, udp},
		"unanswered": {inet.FlowQuery{Unreplied: true},
			func(e entry) bool { return !e.replied && e.to == e.via },
			func(e entry) bool { return !e.replied && e.to == e.via }},
		"to one address of each family": {inet.FlowQuery{To: to(vip4, vip6)},
			func(e entry) bool { return udp(e) && (e.to == vip4 || e.to == vip6) },
			func(e entry) bool { return udp(e) && (e.to == vip4 || six(e)) }},
		"to one address of IPv4": {inet.FlowQuery{To: to(other4)},
			func(e entry) bool { return udp(e) && e.to == other4 },
			func(e entry) bool { return udp(e) && e.to == other4 }},
		"to one address of IPv6": {inet.FlowQuery{To: to(other6)},
			func(e entry) bool { return udp(e) && e.to == other6 },
			func(e entry) bool { return udp(e) && six(e) }},
		"to one port": {inet.FlowQuery{To: to("0.0.0.0:53")},
			func(e entry) bool { return udp(e) && strings.HasSuffix(e.to, ":53") && !six(e) },
			func(e entry) bool { return udp(e) && strings.HasSuffix(e.to, ":53") && !six(e) }},
		"to several": {inet.FlowQuery{To: to(vip4, other4, vip6)},
			func(e entry) bool { return udp(e) && (e.to == vip4 || e.to == other4 || e.to == vip6) }, udp},
	} {
		t.Run(name, func(t *testing.T) {
			inNamespace(t)
			want, offered := []string{}, map[string]bool{}
			for _, e := range all {
				if e.add(t); !test.offered(e) {
					want = append(want, e.String())
				}
			}
			n, err := DeleteFlows(t.Context(), test.query, func(f inet.Flow) bool {
				is := fmt.Sprint(f.Protocol, " ", f.To, " ", f.Replier, " ", f.Replied)
				offered[is] = true
				return slices.ContainsFunc(all, func(e entry) bool {
					return test.offered(e) && is == fmt.Sprint(e.protocol, " ", e.to, " ", e.via, " ", e.replied)
				})
			})
			slices.Sort(want)
			if left := entries(t); err != nil || n != len(all)-len(want) || !slices.Equal(left, want) {
				t.Errorf("deleted %d, %v, left\n%s\nwant\n%s", n, err, strings.Join(left, "\n"), strings.Join(want, "\n"))
			}
			for _, e := range all {
				if is := fmt.Sprint(e.protocol, " ", e.to, " ", e.via, " ", e.replied); offered[is] && !test.only(e) {
					t.Errorf("%s was offered", e)
				}
			}
		})
	}
}

// BenchmarkDeleteFlows measures a scan on a node with 200,000 flows, of which none is to be deleted.
func BenchmarkDeleteFlows(b *testing.B) {
	inNamespace(b)
	for i := range 200_000 {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 168, byte(i >> 16), byte(i >> 8)}), uint16(4000+i&255))
		e := entry{inet.TCP, client.String(), "10.96.0.10:53", "10.244.0.5:53", true}
		if i%2 == 0 {
			e.protocol = inet.UDP
		}
		e.add(b)
	}
	to := func(text string) []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort(text)} }
	for name, q := range map[string]inet.FlowQuery{
		"unanswered": {Unreplied: true}, "UDP": {}, "UDP to one of IPv4": {To: to("10.96.0.11:53")},
		"UDP to one of IPv6": {To: to("[fd00:96::10]:53")},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := DeleteFlows(b.Context(), q, func(inet.Flow) bool { return false }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
