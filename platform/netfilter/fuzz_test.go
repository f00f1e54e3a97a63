package netfilter

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
)

// fuzzed are packets of each protocol and family, in hooks with and without NAT.
func fuzzed() (all []Packet) {
	for _, hook := range []Hook{Prerouting, Forward} {
		for _, proto := range []inet.Protocol{inet.TCP, inet.UDP} {
			all = append(all, to(hook, proto, "10.96.0.1:80"), to(hook, proto, "[fd00::1]:80"))
		}
	}
	return all
}

// meetsAll has packets meet the rules of a ruleset that may be anything: each answer is about a rule that it has, and
// there are no more answers than rules allow.
func meetsAll(t *testing.T, set *Ruleset) {
	rules := map[*Rule]bool{}
	for _, table := range set.Tables {
		for _, c := range table.Chains {
			for _, r := range c.Rules {
				rules[r] = true
			}
		}
	}
	own := func(_ *Table, chain string) bool { return strings.HasPrefix(chain, "OWN") }
	for _, p := range fuzzed() {
		seen := map[Hit]int{}
		for _, h := range set.Meets(p, own) {
			if h.Rule != nil && !rules[h.Rule] || h.Chain == nil || h.Base == nil || h.String() == "" {
				t.Fatalf("a hit of nowhere: %+v", h)
			}
			if seen[h]++; seen[h] > 8*max(1, len(h.Chain.Rules)) {
				t.Fatalf("the same hit again and again: %s", h)
			}
		}
		steps := set.Trail(p, own)
		for i, s := range steps {
			if !rules[s.Rule] || slices.Contains(steps[:i], s) {
				t.Fatalf("step %d: %+v", i, s)
			}
		}
	}
}

// FuzzParseSaved: whatever iptables-save prints, each rule is a line of it, and packets meet rules that are there.
func FuzzParseSaved(f *testing.F) {
	for _, rules := range [][]string{
		{"-A PREROUTING -j OWN", "-A OWN -d 10.96.0.1/32 -p tcp -m tcp --dport 80:90 -j DNAT --to-destination 1.2.3.4:80"},
		{`-A PREROUTING -m comment --comment "a \" -j b" ! -s 10.0.0.0/255.0.255.0 -i eth+ -g OTHER`, "-A OTHER -j RETURN"},
		{"-A OWN -j OTHER", "-A OTHER -j OWN", "-A PREROUTING -m multiport --dports 1,80 -m set --match-set x src -j OWN"},
		{"-A PREROUTING ! --syn -p tcp --tcp-flags FIN,SYN SYN -m conntrack ! --ctstate NEW,DNAT -j CT --notrack"},
		{"-A INPUT -m addrtype --dst-type LOCAL -p 6 -s fd00::/8 -j DROP", "-A  -j", "-A x !", "-A INPUT -j", ":"},
	} {
		for _, table := range []string{"nat", "raw", "filter"} {
			text := ":PREROUTING DROP [0:0]\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [1:2]\n:OWN - [0:0]\n:OTHER - [0:0]\n"
			f.Add("# x\n*"+table+"\n"+text+strings.Join(rules, "\n")+"\nCOMMIT\n", table == "raw")
		}
	}
	f.Fuzz(func(t *testing.T, text string, six bool) {
		lines := map[string]bool{}
		for line := range strings.Lines(text) {
			lines[strings.TrimRight(line, "\r\n")] = true
		}
		tables := ParseSaved(text, IPTables, choose(six, "ip6", "ip"))
		for _, table := range tables {
			for _, c := range table.Chains {
				for _, r := range c.Rules {
					if !lines[r.Text] || !strings.HasPrefix(r.Text, "-A ") || split(r.Text)[1] != c.Name {
						t.Fatalf("chain %q has the rule %q", c.Name, r.Text)
					}
				}
			}
		}
		meetsAll(t, &Ruleset{Tables: tables})
	})
}

// FuzzListing: whatever nft prints of a table, as JSON and as text, packets meet rules that are there.
func FuzzListing(f *testing.F) {
	var seeds [2]string
	for i, name := range []string{"fw.json", "fw.txt"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		seeds[i] = string(text)
	}
	f.Add(seeds[0], seeds[1])
	for _, x := range []string{
		`{"match":{"op":"!=","left":{"payload":{"protocol":"ip","field":"daddr"}},"right":{"prefix":{"addr":"10.0.0.0","len":-3}}}}`,
		`{"match":{"op":"in","left":{"concat":[{"meta":{"key":"l4proto"}},{"payload":{"protocol":"th","field":"dport"}}]},` +
			`"right":{"set":[{"concat":["tcp",{"range":[79,"90"]}]},{"elem":{"val":{"concat":["udp",80]},"timeout":5}}]}}}`,
		`{"vmap":{"key":{"ct":{"key":"state"}},"data":"@m"}},{"limit":{}},{"drop":null}`,
		`{"goto":{"target":"c"}},{"jump":{"target":"c"}},{"jump":7},{"dnat":{}}`,
	} {
		f.Add(`{"nftables":[{"chain":{"name":"c","type":"nat","hook":"prerouting","prio":-100,"policy":"drop"}},`+
			`{"map":{"name":"m","elem":[["new",{"jump":{"target":"c"}}],["x"],7]}},`+
			`{"rule":{"chain":"c","handle":7,"expr":[`+x+`]}},null]}`, "\t\ta # handle 7\n\t\tb # handle 99999999999999999999\n")
	}
	f.Fuzz(func(t *testing.T, listing, text string) {
		l, err := parseListing([]byte(listing))
		if err != nil {
			return
		}
		table := &Table{Program: NFTables, Family: "inet", Name: "x"}
		table.fill(l, parseText(text))
		meetsAll(t, &Ruleset{Tables: []*Table{table}})
	})
}

// Many rules that jump to the same chains, over many levels, are followed once.
func TestChainsOfManyLevels(t *testing.T) {
	text := "*filter\n:FORWARD ACCEPT [0:0]\n"
	for level := range 16 {
		text += fmt.Sprintf(":OWN%d - [0:0]\n:L%d - [0:0]\n", level, level)
		from, own := fmt.Sprint("L", level-1), fmt.Sprint("OWN", level-1)
		if level == 0 {
			from, own = "FORWARD", "FORWARD"
		}
		for set := range 8 { // sets that are not known
			text += fmt.Sprintf("-A %s -m set --match-set %d src -j L%d\n-A %s -m set --match-set %d src -j OWN%d\n",
				from, set, level, own, set, level)
		}
	}
	set := &Ruleset{Tables: ParseSaved(text+"-A L15 -j DROP\nCOMMIT\n", IPTables, "ip")}
	p := to(Forward, inet.TCP, "10.96.0.1:80")
	if got := hitWords(set.Meets(p, ownChains)); !slices.Equal(got, []string{"(drop)"}) {
		t.Errorf("meets %q", got)
	}
	if got := set.Trail(p, ownChains); len(got) != 16*8 {
		t.Errorf("a trail of %d steps", len(got))
	}
}
