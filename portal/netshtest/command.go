package netshtest

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// command is one that was understood.
type command struct {
	v6     bool
	verb   string // add, delete, show
	object string // address, addresses, interfaces, excludedportrange
	device string // a name or an index
	addr   netip.Prefix
	proto  string
}

// grammars are the parameters of commands in the order in which they may stand without their names.
var grammars = map[string][]string{
	"ipv4 add address": {"name", "address", "mask", "gateway", "gwmetric", "type", "subinterface", "store",
		"skipassource"},
	"ipv6 add address": {"interface", "address", "type", "validlifetime", "preferredlifetime", "store",
		"skipassource"},
	"ipv4 delete address":         {"name", "address", "gateway", "store"},
	"ipv6 delete address":         {"interface", "address", "store"},
	"ipv4 show addresses":         {"name"},
	"ipv6 show addresses":         {"interface", "level", "store"},
	"ipv4 show interfaces":        {"interface", "level", "store"},
	"ipv6 show interfaces":        {"interface", "level", "store"},
	"ipv4 show excludedportrange": {"protocol", "store"},
	"ipv6 show excludedportrange": {"protocol", "store"},
}

// parse understands the arguments of a process, or the words of a line.
func parse(args []string) (c command, err error) {
	if len(args) < 4 || strings.ToLower(args[0]) != "interface" {
		return c, notUnderstood
	}
	family, verb, object := strings.ToLower(args[1]), strings.ToLower(args[2]), strings.ToLower(args[3])
	names, ok := grammars[family+" "+verb+" "+object]
	if !ok {
		return c, notUnderstood
	}
	values := map[string]string{}
	for i, arg := range args[4:] {
		name, value, named := strings.Cut(arg, "=")
		if name = strings.ToLower(name); !named && i < len(names) {
			name, value = names[i], arg
		}
		if !slices.Contains(names, name) {
			return c, notUnderstood
		}
		values[name] = value
	}
	c = command{v6: family == "ipv6", verb: verb, object: object, proto: values["protocol"]}
	c.device = values["name"] + values["interface"]
	if object != "address" {
		return c, nil
	}
	if c.device == "" || values["address"] == "" {
		return c, missing
	}
	c.addr, err = prefixOf(values["address"], values["mask"], c.v6)
	return c, err
}

// prefixOf is an address with its subnet: a mask, a length behind the address, or Windows' default.
func prefixOf(addr, mask string, v6 bool) (netip.Prefix, error) {
	host, length, given := strings.Cut(addr, "/")
	a, err := netip.ParseAddr(host)
	if err != nil || a.Is6() != v6 || a.Is4In6() {
		return netip.Prefix{}, incorrect
	}
	bits := defaultLength(a)
	if given {
		if bits, err = strconv.Atoi(length); err != nil {
			return netip.Prefix{}, incorrect
		}
	} else if mask != "" {
		if bits, err = lengthOf(mask); err != nil {
			return netip.Prefix{}, err
		}
	}
	p := netip.PrefixFrom(a, bits)
	if !p.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a.Is4() && a.As4()[0] >= 240 {
		return netip.Prefix{}, incorrect
	}
	return p, nil
}

// defaultLength is the prefix length of the class of an IPv4 address, and of an IPv6 subnet.
func defaultLength(a netip.Addr) int {
	switch {
	case a.Is6():
		return 64
	case a.As4()[0] < 128:
		return 8
	case a.As4()[0] < 192:
		return 16
	}
	return 24
}

func lengthOf(mask string) (int, error) {
	m, err := netip.ParseAddr(mask)
	if err != nil || !m.Is4() {
		return 0, incorrect
	}
	for bits := range 33 {
		if maskOf(bits) == m {
			return bits, nil
		}
	}
	return 0, incorrect
}

func maskOf(bits int) netip.Addr {
	m := ^uint32(0) << (32 - bits)
	return netip.AddrFrom4([4]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)})
}

// words splits a line of a script. Values may be in quotes.
func words(line string) (out []string) {
	word, quoted, inWord := "", false, false
	for _, r := range strings.TrimSpace(line) {
		switch {
		case r == '"':
			quoted, inWord = !quoted, true
		case (r == ' ' || r == '\t') && !quoted:
			if inWord {
				out = append(out, word)
			}
			word, inWord = "", false
		default:
			word, inWord = word+string(r), true
		}
	}
	if inWord {
		out = append(out, word)
	}
	return out
}
