package nftables

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/portald/portald/proxy/service"
)

// chain is a chain with its rules; with a hook the kernel enters it by itself.
type chain struct {
	name  string
	hook  *hook
	rules []rule
}

// hook is where packets enter a chain. Priorities are numbers: old versions of nft refuse some of their names.
type hook struct {
	kind     string // "nat" or "filter"
	at       string
	priority int
}

// rule is what is done with a packet, from left to right until something does not match or ends it.
type rule []statement

// statement is a match or an action. There are two renderings of each: text, and expressions of the kernel's. A test
// holds them together.
type statement interface{ text(f family) string }

func (r rule) text(f family) string {
	words := make([]string, len(r))
	for i, s := range r {
		words[i] = s.text(f)
	}
	return strings.Join(words, " ")
}

// protocols matches the packet's; a redirect or translation by a map has to follow one.
type protocols []service.Protocol

func (s protocols) text(family) string {
	if len(s) == 1 {
		return "meta l4proto " + s[0].String()
	}
	var words []string
	for _, p := range s {
		words = append(words, p.String())
	}
	return "meta l4proto { " + strings.Join(words, ", ") + " }"
}

// address matches the source or else the destination, within a prefix or, if not, outside. The prefix is masked.
type address struct {
	source, not bool
	prefix      netip.Prefix
}

func (s address) text(f family) string {
	return f.word + " " + choose(s.source, "saddr ", "daddr ") + choose(s.not, "!= ", "") + prefixText(s.prefix)
}

func prefixText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// outside matches a source that none of these prefixes has, which do not overlap. A rule has room for some forty of them by
// themselves; a set has for all.
type outside []netip.Prefix

func (s outside) text(f family) string {
	if len(s) == 1 {
		return s.only().text(f)
	}
	var words []string
	for _, p := range s {
		words = append(words, prefixText(p))
	}
	return fmt.Sprintf("%s saddr != { %s }", f.word, strings.Join(words, ", "))
}

// only is the match of a single prefix.
func (s outside) only() address { return address{source: true, not: true, prefix: s[0]} }

// intervals are the elements of a set that has the prefixes: where each begins, and the first address beyond, unless
// the next begins there or there is none.
func (s outside) intervals() []filled {
	var out []filled
	for i, p := range s {
		if i == 0 || beyond(s[i-1]) != p.Addr() {
			out = append(out, filled{entry: entry{element: element{source: p.Addr()}}})
		}
		if end := beyond(p); end.IsValid() && (i == len(s)-1 || s[i+1].Addr() != end) {
			out = append(out, filled{entry: entry{element: element{source: end, end: true}}})
		}
	}
	return out
}

// beyond is the first address after those of a prefix, which is masked; the zero Addr if there is none.
func beyond(p netip.Prefix) netip.Addr {
	last := p.Addr().AsSlice()
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	addr, _ := netip.AddrFromSlice(last)
	return addr.Next()
}

// device matches the interface that a packet came in by, by its name or the beginning of that.
type device struct {
	not, begins bool
	name        string
}

func (s device) text(family) string {
	return fmt.Sprintf("iifname %s\"%s%s\"", choose(s.not, "!= ", ""), s.name, choose(s.begins, "*", ""))
}

// local matches addresses of this node.
type local struct{ source bool }

func (s local) text(family) string {
	return "fib " + choose(s.source, "saddr", "daddr") + " type local"
}

// newFlow and translated match what the kernel knows of the packet's flow.
type (
	newFlow    struct{}
	translated struct{}
)

func (newFlow) text(family) string    { return "ct state new" }
func (translated) text(family) string { return "ct status dnat" }

// toPorts matches a range of destination ports of one protocol.
type toPorts struct {
	protocol    service.Protocol
	first, last uint16
}

func (s toPorts) text(family) string {
	return fmt.Sprintf("%s dport %d-%d", s.protocol, s.first, s.last)
}

// opening matches the first packet of a TCP connection. The protocol is known.
type opening struct{}

func (opening) text(family) string { return "tcp flags & (fin | syn | rst | ack) == syn" }

// marked matches packets that bear a mark; mark and unmark give and take it.
type (
	marked struct{ bits uint32 }
	mark   struct{ bits uint32 }
	unmark struct{ bits uint32 }
)

func (s marked) text(family) string {
	return fmt.Sprintf("meta mark & 0x%08x == 0x%08x", s.bits, s.bits)
}
func (s mark) text(family) string   { return fmt.Sprintf("meta mark set meta mark | 0x%08x", s.bits) }
func (s unmark) text(family) string { return fmt.Sprintf("meta mark set meta mark & 0x%08x", ^s.bits) }

// transparent matches packets for a socket of this host that is bound to an address of others.
type transparent struct{}

func (transparent) text(family) string { return "socket transparent 1 socket wildcard 0" }

// member matches packets that a set knows.
type member struct{ of *set }

func (s member) text(f family) string { return s.of.key.text(f, 0) + " @" + s.of.name }

// dispatch goes where a map says.
type dispatch struct{ by *set }

func (s dispatch) text(f family) string { return s.by.key.text(f, 0) + " vmap @" + s.by.name }

// redirect leads to the port that a map says, at this address of the host or, if it is none, at that of the interface.
type redirect struct {
	by *set
	to netip.Addr
}

func (s redirect) text(f family) string {
	lookup := ": " + s.by.key.text(f, 0) + " map @" + s.by.name
	if !s.to.IsValid() {
		return "redirect to " + lookup
	}
	if f.ip == service.IPv6 {
		return fmt.Sprintf("dnat to [%s] %s", s.to, lookup)
	}
	return fmt.Sprintf("dnat to %s %s", s.to, lookup)
}

// spreadBy leads to one of the endpoints that a map knows by their number.
type spreadBy struct{ by *set }

func (s spreadBy) text(f family) string {
	return fmt.Sprintf("dnat %s to %s map @%s", f.word, s.by.key.text(f, s.by.slots), s.by.name)
}

// spread leads to any of these.
type spread []netip.AddrPort

func (s spread) text(f family) string {
	if len(s) == 1 {
		return "dnat to " + s[0].String()
	}
	var all []string
	for i, e := range s {
		all = append(all, fmt.Sprintf("%d : %s . %d", i, e.Addr(), e.Port()))
	}
	return fmt.Sprintf("dnat %s to numgen random mod %d map { %s }", f.word, len(s), strings.Join(all, ", "))
}

// chance matches one of so many packets, at random.
type chance struct{ of int }

func (s chance) text(family) string { return fmt.Sprintf("numgen random mod %d == 0", s.of) }

// bound matches clients that a set has with a number, and remember enters them for that long from now on.
type (
	bound struct {
		in     *set
		number uint32
	}
	remember struct {
		bound
		long time.Duration
	}
)

// key is the client and, as the one random number that it can be, the number.
func (s bound) key(f family) string {
	return fmt.Sprintf("%s . numgen random mod 1 offset %d", key{bySource}.text(f, 0), s.number)
}

func (s bound) text(f family) string { return s.key(f) + " @" + s.in.name }

func (s remember) text(f family) string {
	return fmt.Sprintf("update @%s { %s timeout %s }", s.in.name, s.key(f), timeText(s.long))
}

// timeText is in nft's words, which know milliseconds below seconds.
func timeText(d time.Duration) string {
	return fmt.Sprintf("%ds%dms", d/time.Second, d%time.Second/time.Millisecond)
}

// masquerade gives the flow this node's address.
type masquerade struct{}

func (masquerade) text(family) string { return "masquerade fully-random" }

// reject answers "connection refused".
type reject struct{ tcp bool }

func (s reject) text(family) string { return choose(s.tcp, "reject with tcp reset", "reject") }

// verdict ends the rule: with the packet, or in another chain.
type verdict struct {
	word  string // jump, goto, return or drop
	chain string // of the first two
}

func (s verdict) text(family) string { return strings.TrimSuffix(s.word+" "+s.chain, " ") }

func jump(to string) verdict { return verdict{"jump", to} }
func goTo(to string) verdict { return verdict{"goto", to} }
func drop() verdict          { return verdict{word: "drop"} }
func backToCaller() verdict  { return verdict{word: "return"} }

func choose[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}
