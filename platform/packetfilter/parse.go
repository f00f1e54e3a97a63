package packetfilter

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/portald/portald/platform/inet"
)

// maxText and maxDepth bound what is parsed.
const (
	maxText  = 2048
	maxDepth = 64
)

// Parse reads the part of pcap-filter's language that is of use for Services: host, net, port and portrange, with src,
// dst, ip, ip6, tcp, udp, sctp, icmp, icmp6, the flags of TCP, less and greater, joined by and, or, not and
// parentheses. As there, and and or bind alike. What it does not know is an error, never left out.
func Parse(text string) (Expr, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the filter has %d characters; at most %d are allowed", len(text), maxText)
	}
	p := &parser{words: words(text)}
	if len(p.words) == 0 {
		return nil, errors.New("the filter is empty")
	}
	e, err := p.expression(0)
	if err == nil && len(p.words) > 0 {
		err = p.unexpected("and, or, or the end")
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// words cuts a text into words and signs.
func words(text string) (all []string) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		n := strings.IndexFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n()[]!&|=<>", r) })
		switch {
		case n < 0:
			n = len(text)
		case n == 0:
			n = 1
			if len(text) > 1 && slices.Contains([]string{"&&", "||", "==", "!=", ">=", "<="}, text[:2]) {
				n = 2
			}
		}
		all, text = append(all, text[:n]), text[n:]
	}
	return all
}

type parser struct {
	words []string // that are left
	last  qualifiers
}

// qualifiers stand before a value. A value without any has those before it: "port 80 or 443".
type qualifiers struct {
	protocol, direction, kind string
}

func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

// accept takes the next word if it is one of these.
func (p *parser) accept(any ...string) string {
	w := p.next()
	if w == "" || !slices.Contains(any, w) {
		return ""
	}
	p.words = p.words[1:]
	return w
}

func (p *parser) unexpected(want string) error {
	if len(p.words) == 0 {
		return fmt.Errorf("the filter ends where it must have %s", want)
	}
	return fmt.Errorf("the filter has %q where it must have %s", p.next(), want)
}

func (p *parser) expression(depth int) (Expr, error) {
	e, err := p.term(depth)
	for err == nil {
		var right Expr
		switch {
		case p.accept("and", "&&") != "":
			if right, err = p.term(depth); err == nil {
				e = And(e, right)
			}
		case p.accept("or", "||") != "":
			if right, err = p.term(depth); err == nil {
				e = Or(e, right)
			}
		default:
			return e, nil
		}
	}
	return nil, err
}

func (p *parser) term(depth int) (Expr, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the filter is nested more than %d times", maxDepth)
	}
	switch {
	case p.accept("not", "!") != "":
		e, err := p.term(depth + 1)
		if err != nil {
			return nil, err
		}
		return Not(e), nil
	case p.accept("(") != "":
		e, err := p.expression(depth + 1)
		if err == nil && p.accept(")") == "" {
			err = p.unexpected("a closing parenthesis")
		}
		return e, err
	case p.accept("less") != "":
		return p.length(false)
	case p.accept("greater") != "":
		return p.length(true)
	}
	return p.primitive()
}

func (p *parser) length(least bool) (Expr, error) {
	n, err := strconv.ParseUint(p.next(), 10, 31)
	if err != nil {
		return nil, p.unexpected("a number of bytes")
	}
	p.words = p.words[1:]
	return Length(least, uint32(n)), nil
}

var protocols = map[string]Expr{
	"ip": Version(4), "ip6": Version(6), "tcp": Protocols(uint8(inet.TCP)), "udp": Protocols(uint8(inet.UDP)),
	"sctp": Protocols(uint8(inet.SCTP)), "icmp": family(4, protocolAt(9, []uint8{1})),
	"icmp6": family(6, protocolAt(6, []uint8{58})),
}

// primitive reads one condition on addresses, ports, the protocol or flags.
func (p *parser) primitive() (Expr, error) {
	var q qualifiers
	if q.protocol = p.accept("ip", "ip6", "tcp", "udp", "sctp", "icmp", "icmp6"); q.protocol == "tcp" &&
		p.accept("[") != "" {
		return p.flags()
	}
	q.direction = p.direction()
	q.kind = p.accept("host", "net", "port", "portrange")
	value := p.next()
	switch {
	case q.protocol != "" && q.direction == "" && q.kind == "" && !isValue(value):
		return protocols[q.protocol], nil
	case q == qualifiers{} && isValue(value) && p.last != qualifiers{}:
		q = p.last
	case q == qualifiers{}:
		return nil, p.unexpected("host, net, port, portrange, src, dst, ip, ip6, tcp, udp, sctp, icmp, icmp6, less, " +
			"greater, not or a parenthesis (this is the part of tcpdump's language that portald knows)")
	}
	if !isValue(value) {
		return nil, p.unexpected("a value")
	}
	p.words, p.last = p.words[1:], q
	return q.condition(value)
}

// direction reads src, dst, "src or dst" or "src and dst".
func (p *parser) direction() string {
	first := p.accept("src", "dst")
	if first != "" && len(p.words) > 1 && (p.words[1] == "src" || p.words[1] == "dst") && p.words[1] != first {
		if between := p.accept("or", "and"); between != "" {
			p.words = p.words[1:]
			return between
		}
	}
	return first
}

func isValue(word string) bool {
	return word != "" && !strings.ContainsAny(word, "()[]!&|=<>") &&
		!slices.Contains([]string{"and", "or", "not", "src", "dst", "host", "net", "port", "portrange", "less", "greater"},
			word) && protocols[word] == nil
}

func (q qualifiers) condition(value string) (Expr, error) {
	direction := map[string]Direction{"src": Source, "dst": Destination, "and": Both}[q.direction]
	switch q.kind {
	case "port", "portrange":
		return q.ports(direction, value)
	case "net":
		prefix, err := netip.ParsePrefix(value)
		if err != nil {
			return nil, fmt.Errorf("net %q: must be a prefix such as 10.244.0.0/16", value)
		}
		return q.addresses(direction, prefix)
	}
	address, err := netip.ParseAddr(value)
	if err != nil || address.Zone() != "" {
		return nil, fmt.Errorf("host %q: must be an address, names are not looked up", value)
	}
	return q.addresses(direction, netip.PrefixFrom(address, address.BitLen()))
}

func (q qualifiers) addresses(d Direction, p netip.Prefix) (Expr, error) {
	if p != p.Masked() {
		return nil, fmt.Errorf("net %q: has bits outside its mask: write %s", p, p.Masked())
	}
	if q.protocol != "" && q.protocol != "ip" && q.protocol != "ip6" {
		return nil, fmt.Errorf("%s before an address: write \"%s and host ...\"", q.protocol, q.protocol)
	}
	return q.within(Addresses(d, p)), nil
}

func (q qualifiers) ports(d Direction, value string) (Expr, error) {
	if !slices.Contains([]string{"", "tcp", "udp", "sctp"}, q.protocol) {
		return nil, fmt.Errorf("%s before a port: only tcp, udp and sctp have ports", q.protocol)
	}
	first, last, isRange := strings.Cut(value, "-")
	if q.kind == "port" || !isRange {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 16)
	to, errTo := strconv.ParseUint(last, 10, 16)
	if err != nil || errTo != nil || from > to || q.kind == "port" && isRange {
		return nil, fmt.Errorf("%s %q: must be a number up to 65535, or two such as 8000-8080 after portrange", q.kind,
			value)
	}
	return q.within(InPortRanges(d, PortRange{uint16(from), uint16(to)})), nil
}

func (q qualifiers) within(e Expr) Expr {
	if q.protocol == "" {
		return e
	}
	return And(protocols[q.protocol], e)
}

// tcpFlags are the flags by name, as in pcap-filter.
var tcpFlags = map[string]uint8{
	"tcp-fin": 1, "tcp-syn": 2, "tcp-rst": 4, "tcp-push": 8, "tcp-ack": 16, "tcp-urg": 32, "tcp-ece": 64, "tcp-cwr": 128,
}

// flags reads the rest of tcp[tcpflags] & MASK != VALUE.
func (p *parser) flags() (Expr, error) {
	if p.accept("tcpflags", "13") == "" || p.accept("]") == "" {
		return nil, p.unexpected("tcpflags], as in tcp[tcpflags] & tcp-rst != 0")
	}
	mask := uint8(0xff)
	if p.accept("&") != "" {
		var err error
		if mask, err = p.flagSet(); err != nil {
			return nil, err
		}
	}
	sign := p.accept("=", "==", "!=")
	if sign == "" {
		return nil, p.unexpected("=, == or !=")
	}
	value, err := p.flagSet()
	if err != nil {
		return nil, err
	}
	return Flags(mask, value, sign != "!="), nil
}

// flagSet reads a number, a flag, or several flags with | between them.
func (p *parser) flagSet() (set uint8, err error) {
	inside := p.accept("(") != ""
	for {
		flag, known := tcpFlags[p.next()]
		if !known {
			n, err := strconv.ParseUint(p.next(), 0, 8)
			if err != nil {
				return 0, p.unexpected("a flag such as tcp-rst, or a number up to 255")
			}
			flag = uint8(n)
		}
		p.words = p.words[1:]
		set |= flag
		if !inside || p.accept("|") == "" {
			break
		}
	}
	if inside && p.accept(")") == "" {
		return 0, p.unexpected("a closing parenthesis")
	}
	return set, nil
}
