package netfilter

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
)

// to is the first packet of a flow to a Service from a client that is known.
func to(hook Hook, proto inet.Protocol, addr string) Packet {
	return Packet{
		Hook: hook, Protocol: proto, Source: netip.MustParseAddr("10.244.0.9"),
		Destination: netip.MustParseAddrPort(addr), Local: func(a netip.Addr) bool { return a.String() == "192.0.2.1" },
	}
}

// ownChains are chains of iptables that begin with OWN.
func ownChains(_ *Table, chain string) bool { return strings.HasPrefix(chain, "OWN") }

// saved is a ruleset of iptables with a chain of ours in nat.
func saved(table string, rules ...string) *Ruleset {
	text := "*" + table + "\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n" +
		":OWN - [0:0]\n:OTHER - [0:0]\n"
	return &Ruleset{Tables: ParseSaved(text+strings.Join(rules, "\n")+"\nCOMMIT\n", IPTablesNFT, "ip")}
}

// words are the hits, each as its kind, in brackets where it is not certain.
func hitWords(hits []Hit) (out []string) {
	for _, h := range hits {
		word := string(h.Kind)
		if !h.Certain {
			word = "(" + word + ")"
		}
		out = append(out, word)
	}
	return out
}

func TestMeetsRulesOfIPTables(t *testing.T) {
	own := "-A PREROUTING -j OWN"
	for _, c := range []struct {
		name, table string
		rules       []string
		want        string
	}{
		{"nothing", "nat", []string{own}, ""},
		{"behind ours", "nat", []string{own, "-A PREROUTING -d 10.96.0.1/32 -j DROP"}, ""},
		{"DNAT before ours", "nat",
			[]string{"-A PREROUTING -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 1.2.3.4:80", own},
			"translate"},
		{"another port", "nat", []string{"-A PREROUTING -p tcp -m tcp --dport 81 -j REDIRECT --to-ports 1", own}, ""},
		{"a range of ports", "nat", []string{"-A PREROUTING -p tcp -m tcp --dport 79:80 -j REDIRECT --to-ports 1", own},
			"translate"},
		{"a list of ports", "nat", []string{"-A PREROUTING -p tcp -m multiport --dports 1,80,90:99 -j REDIRECT", own},
			"translate"},
		{"all but a port", "nat", []string{"-A PREROUTING -p tcp -m tcp ! --dport 80 -j REDIRECT", own}, ""},
		{"another protocol", "nat", []string{"-A PREROUTING -p udp -j REDIRECT --to-ports 1", own}, ""},
		{"a network", "nat", []string{"-A PREROUTING -d 10.0.0.0/255.0.0.0 -j NETMAP --to 10.0.0.0/8", own}, "translate"},
		{"another network", "nat", []string{"-A PREROUTING ! -d 10.96.0.0/12 -j REDIRECT", own}, ""},
		{"of another client", "nat", []string{"-A PREROUTING -s 10.0.0.1/32 -j REDIRECT", own}, ""},
		{"accepted before ours", "nat", []string{"-A PREROUTING -d 10.96.0.1/32 -j ACCEPT", own}, "accept"},
		{"a set that may hold it", "nat", []string{"-A PREROUTING -m set --match-set x dst -j REDIRECT", own},
			"(translate)"},
		{"an interface that may be it", "nat", []string{"-A PREROUTING -i eth0 -j REDIRECT", own}, "(translate)"},
		{"for local addresses", "nat", []string{"-A PREROUTING -m addrtype --dst-type LOCAL -j OTHER",
			"-A OTHER -j REDIRECT", own}, ""},
		{"in a chain", "raw", []string{"-A PREROUTING -p tcp -j OTHER", "-A OTHER -j DROP"}, "drop"},
		{"in a chain after return", "raw",
			[]string{"-A PREROUTING -j OTHER", "-A OTHER -p tcp -j RETURN", "-A OTHER -j DROP"}, ""},
		{"after a return that may be", "raw",
			[]string{"-A PREROUTING -j OTHER", "-A OTHER -i eth0 -j RETURN", "-A OTHER -j DROP"}, "(drop)"},
		{"behind a goto", "raw", []string{"-A PREROUTING -g OTHER", "-A PREROUTING -j DROP"}, ""},
		{"untracked", "raw", []string{"-A PREROUTING -p tcp -j CT --notrack"}, "notrack"},
		{"untracked by the old target", "raw", []string{"-A PREROUTING -p tcp -j NOTRACK"}, "notrack"},
		{"TPROXY", "mangle", []string{"-A PREROUTING -p tcp -m socket -j RETURN",
			"-A PREROUTING -p tcp -j TPROXY --on-port 1 --on-ip 0.0.0.0 --tproxy-mark 0x1/0x1"}, "(tproxy)"},
		{"marks are nothing", "mangle", []string{"-A PREROUTING -j MARK --set-xmark 0x1/0x1"}, ""},
		{"open flows", "raw", []string{"-A PREROUTING -m conntrack --ctstate RELATED,ESTABLISHED -j DROP"}, ""},
		{"new flows", "raw", []string{"-A PREROUTING -m conntrack --ctstate INVALID,NEW -j DROP"}, "drop"},
		{"SYN", "raw", []string{"-A PREROUTING -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j DROP"}, "drop"},
		{"not SYN", "raw", []string{"-A PREROUTING -p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -j DROP"}, ""},
		{"a queue", "mangle", []string{"-A PREROUTING -j NFQUEUE --queue-num 1"}, "queue"},
		{"a comment like an option", "raw",
			[]string{`-A PREROUTING -p tcp -m comment --comment "-j ACCEPT \" it" -j DROP`}, "drop"},
	} {
		hits := saved(c.table, c.rules...).Meets(to(Prerouting, inet.TCP, "10.96.0.1:80"), ownChains)
		if got := strings.Join(hitWords(hits), " "); got != c.want {
			t.Errorf("%s: meets %q, want %q", c.name, got, c.want)
		}
	}
}

// In filter a packet meets the rules before and behind ours, by its translated destination, unless ours accept it.
func TestMeetsFilter(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules []string
		want  string
	}{
		{"refused before ours", []string{"-A INPUT -p tcp -m tcp --dport 8080 -j REJECT", "-A INPUT -j OWN",
			"-A OWN -m conntrack --ctstate DNAT -j ACCEPT"}, "reject"},
		{"ours accept", []string{"-A INPUT -j OWN", "-A OWN -m conntrack --ctstate DNAT -j ACCEPT", "-A INPUT -j DROP"}, ""},
		{"ours accept by a mark", []string{"-A INPUT -j OWN", "-A OWN -m mark --mark 0x1 -j ACCEPT", "-A INPUT -j DROP"}, ""},
		{"ours return", []string{"-A INPUT -j OWN", "-A OWN -j RETURN", "-A INPUT -j DROP"}, "drop"},
		{"it may be accepted", []string{"-A INPUT -m mark --mark 0x1 -j ACCEPT", "-A INPUT -j DROP"}, "(drop)"},
	} {
		p := to(Input, inet.TCP, "192.0.2.1:8080")
		p.Translated = true
		if got := strings.Join(hitWords(saved("filter", c.rules...).Meets(p, ownChains)), " "); got != c.want {
			t.Errorf("%s: meets %q, want %q", c.name, got, c.want)
		}
	}
	r := &Ruleset{Tables: ParseSaved("*filter\n:INPUT DROP [0:0]\nCOMMIT\n", IPTablesLegacy, "ip")}
	hits := r.Meets(to(Input, inet.TCP, "192.0.2.1:8080"), ownChains)
	if len(hits) != 1 || hits[0].String() != "iptables-legacy table ip filter: chain INPUT has the policy drop" {
		t.Errorf("a policy: %v", hits)
	}
	p := to(Input, inet.TCP, "[fd00::1]:8080")
	if hits := r.Meets(p, ownChains); len(hits) != 0 {
		t.Errorf("a packet of IPv6 meets rules of IPv4: %v", hits)
	}
}

// fw is the listing of testdata/fw.nft.
func fw(t *testing.T) *Ruleset {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	list, err := parseListing(read("fw.json"))
	if err != nil {
		t.Fatal(err)
	}
	table := &Table{Program: NFTables, Family: "inet", Name: "fw"}
	table.fill(list, parseText(string(read("fw.txt"))))
	return &Ruleset{Tables: []*Table{table}}
}

// Each packet meets the rule that is made for it, among rules of all forms that are not.
func TestMeetsRulesOfNFTables(t *testing.T) {
	rules := fw(t)
	const ports = "tcp dport { 22, 180-190 } counter packets 0 bytes 0 reject"
	for _, c := range []struct {
		packet Packet
		rule   string
		kind   Kind
		sure   bool
	}{
		{to(Prerouting, inet.TCP, "10.96.0.2:22"), ports, Reject, true},
		{to(Prerouting, inet.TCP, "10.96.0.2:185"), ports, Reject, true},
		{to(Prerouting, inet.TCP, "10.97.3.2:443"), "ip daddr @bad drop", Drop, true},
		{to(Prerouting, inet.TCP, "5.6.7.9:443"), "ip daddr @bad drop", Drop, true},
		{to(Prerouting, inet.TCP, "10.96.0.1:7080"), "meta l4proto . th dport vmap @m", Drop, true},
		{to(Prerouting, inet.UDP, "10.96.0.1:54"), "udp dport != 53 notrack", Untrack, false},
		{to(Prerouting, inet.TCP, "10.96.0.9:1234"), "tcp flags syn / fin,syn,rst,ack drop", Drop, false},
		{to(Prerouting, inet.UDP, "10.96.0.9:99"), "meta l4proto { tcp, udp } th dport 99 drop", Drop, false},
		{to(Prerouting, inet.UDP, "[fd00::7]:7"), "ip6 daddr fd00::/8 drop", Drop, false},
	} {
		hits := rules.Meets(c.packet, ownChains)
		i := slices.IndexFunc(hits, func(h Hit) bool { return h.Rule != nil && h.Rule.Text == c.rule })
		if i < 0 || hits[i].Kind != c.kind || hits[i].Certain != c.sure {
			t.Errorf("%s: meets %v, want %s", c.packet.Destination, hits, c.rule)
		}
	}
	for _, dst := range []string{"10.96.0.9:53", "192.0.2.1:5555"} {
		if hits := rules.Meets(to(Prerouting, inet.UDP, dst), ownChains); len(hits) != 0 {
			t.Errorf("%s is accepted, and meets %v", dst, hits)
		}
	}
	p := to(Prerouting, inet.UDP, "10.96.0.9:53")
	p.Behind = true
	if hits := rules.Meets(p, ownChains); len(hits) != 0 {
		t.Errorf("behind NAT it meets %v", hits)
	}
}

// Rules at the priority of NAT may come before ours or behind.
func TestOrderAmongEqualsIsNotKnown(t *testing.T) {
	r := saved("nat", "-A PREROUTING -p tcp -j REDIRECT --to-ports 1")
	hits := r.Meets(to(Prerouting, inet.TCP, "10.96.0.1:80"), ownChains)
	if got := hitWords(hits); !slices.Equal(got, []string{"(translate)"}) {
		t.Errorf("meets %v", got)
	}
}
