// Package netfilter reads the rules that all programs have in the packet hooks of this host, in iptables of both
// variants and in nftables, and tells which of them the first packet of a flow meets. It changes nothing, and does not
// know whose rules are whose.
//
//	rules := netfilter.Reader{}.Read(ctx) // rules.Unread names what could not be read
//	packet := netfilter.Packet{Hook: netfilter.Prerouting, Protocol: inet.TCP, Destination: clusterIP}
//	for _, hit := range rules.Meets(packet, own) {
//		fmt.Println(hit) // iptables-nft table ip filter, chain FORWARD: -A FORWARD -j DROP
//	}
package netfilter

import (
	"fmt"

	"github.com/portald/portald/platform/inet"
)

// Program is the command that wrote a table and that lists it.
type Program string

// The programs.
const (
	IPTablesNFT    Program = "iptables-nft"
	IPTablesLegacy Program = "iptables-legacy"
	IPTables       Program = "iptables" // of a host that does not say which of both it has
	NFTables       Program = "nftables"
)

// Hook is where packets enter base chains, by nftables' name.
type Hook string

// The hooks that a flow to a Service may pass.
const (
	Ingress     Hook = "ingress"
	Prerouting  Hook = "prerouting"
	Input       Hook = "input"
	Forward     Hook = "forward"
	Output      Hook = "output"
	Postrouting Hook = "postrouting"
)

// Priorities of chains in a hook (linux/netfilter_ipv4.h). Chains of lower priority come first.
const (
	priorityRaw      = -300
	priorityMangle   = -150
	PriorityNAT      = -100 // of the destination
	prioritySecurity = 50
	prioritySource   = 100 // NAT of the source
)

// Ruleset is the rules of the host, as far as they could be read.
type Ruleset struct {
	Tables []*Table
	Unread []string // what could not be read, and why
}

// Table is one table of a program. An nftables table may be of both families.
type Table struct {
	Program Program
	Family  string // ip, ip6, inet, netdev
	Name    string
	Chains  []*Chain // in the order of the listing; none of a table that the reader was told to leave out

	sets map[string]elements // the named sets and maps of nftables
}

// Chain is a chain; one with a Hook is a base chain.
type Chain struct {
	Table    *Table
	Name     string
	Hook     Hook   // empty: rules jump here
	Type     string // of a base chain: nat, filter, route
	Priority int
	Policy   Kind // of a base chain: Accept or Drop
	Rules    []*Rule
}

// Rule is one rule.
type Rule struct {
	Text    string // as the program prints it
	Actions []Action
}

// Kind tells what an action does with a packet.
type Kind string

// The kinds.
const (
	Continue  Kind = "continue" // nothing that decides where the packet goes
	Accept    Kind = "accept"
	Drop      Kind = "drop"
	Reject    Kind = "reject"
	Queue     Kind = "queue"     // a program decides
	Translate Kind = "translate" // another destination: DNAT, REDIRECT
	Divert    Kind = "tproxy"    // to a local socket
	Untrack   Kind = "notrack"   // conntrack, and so NAT, passes it over
	Jump      Kind = "jump"
	Goto      Kind = "goto"
	Return    Kind = "return"
)

// Action is something that a rule does with the packets that it matches; one with a verdict map has several.
type Action struct {
	Kind  Kind
	Chain string // of Jump and Goto

	when []condition
}

// Base returns the base chains of a table.
func (t *Table) Base() (out []*Chain) {
	for _, c := range t.Chains {
		if c.Hook != "" {
			out = append(out, c)
		}
	}
	return out
}

// Chain returns a chain by name, nil if there is none.
func (t *Table) Chain(name string) *Chain {
	for _, c := range t.Chains {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// serves tells whether packets of a family pass the table.
func (t *Table) serves(family inet.Family) bool {
	switch t.Family {
	case "inet", "netdev":
		return true
	case "ip6":
		return family == inet.IPv6
	case "ip":
		return family == inet.IPv4
	}
	return false // arp, bridge
}

// String names it as its program does.
func (t *Table) String() string { return fmt.Sprintf("%s table %s %s", t.Program, t.Family, t.Name) }
