package netfilter

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/portald/portald/platform/inet"
)

// saveCondition returns what an option of iptables' matches says; nil: nothing.
func saveCondition(option string, values []string, inverted bool) condition {
	if option == "--comment" || option == "-m" && len(values) == 1 && slices.Contains(modules(), values[0]) {
		return nil
	}
	s, test := saveMatch(option, values)
	switch {
	case test == nil:
		return unknown
	case inverted:
		return s.isNot(test)
	}
	return s.is(test)
}

// modules are the modules of which only the options match.
func modules() []string {
	return []string{"tcp", "udp", "sctp", "multiport", "conntrack", "state", "addrtype", "comment"}
}

// saveMatch returns what an option compares, and the test; nil: it is not known here.
func saveMatch(option string, values []string) (subject, func(string) Answer) {
	if option == "--syn" || option == "--tcp-flags" && len(values) == 2 {
		return tcpFlags, flagsOfSYN(option, values)
	}
	if len(values) == 0 {
		return nil, nil
	}
	list := strings.Split(values[0], ",")
	switch option {
	case "-s", "-d":
		test, ok := parseNetwork(values[0])
		if !ok {
			return nil, nil
		}
		return choose[subject](option == "-s", source, destination), test
	case "-p":
		if values[0] == "all" {
			return protocol, func(string) Answer { return Yes }
		}
		return protocol, anyOf([]func(string) Answer{equals(values[0], ""), equals(protocolName(values[0]), "")})
	case "--dport", "--dports", "--destination-port":
		return destinationPort, ports(list)
	case "-i":
		return incoming, equals(values[0], "+")
	case "--ctstate", "--state":
		return states(list), words([]string{"yes"})
	case "--dst-type":
		return destinationType, words(list)
	}
	return nil, nil
}

// states is "yes" where the state or the NAT of a packet's flow is in the list.
func states(list []string) subject {
	return func(p Packet) (string, Answer) {
		is, _ := state(p)
		nat, _ := status(p)
		if slices.Contains(list, strings.ToUpper(is)) || slices.Contains(list, strings.ToUpper(nat)) {
			return "yes", Yes
		}
		return "no", Yes
	}
}

// flagsOfSYN tests the flags by a mask, and by the ones in it that have to be set.
func flagsOfSYN(option string, values []string) func(string) Answer {
	mask, want := "FIN,SYN,RST,ACK", "SYN"
	if option == "--tcp-flags" {
		mask, want = values[0], values[1]
	}
	return func(flags string) Answer {
		has := "NONE"
		for _, flag := range strings.Split(mask, ",") {
			if strings.EqualFold(flag, flags) || flag == "ALL" {
				has = flags
			}
		}
		return answer(strings.EqualFold(has, want))
	}
}

func words(list []string) func(string) Answer {
	var tests []func(string) Answer
	for _, word := range list {
		tests = append(tests, equals(word, ""))
	}
	return anyOf(tests)
}

// ports tests a list of ports and of ranges with a colon.
func ports(list []string) func(string) Answer {
	var tests []func(string) Answer
	for _, one := range list {
		first, last, ranged := strings.Cut(one, ":")
		if !ranged {
			last = first
		}
		tests = append(tests, between(first, last))
	}
	return anyOf(tests)
}

// protocolName is the name of a protocol that is given as a number.
func protocolName(text string) string {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return text
	}
	return inet.Protocol(n).String()
}

// parseNetwork reads an address with the length or the bits of a mask, or without, and returns a test for it.
func parseNetwork(text string) (test func(string) Answer, ok bool) {
	host, mask, masked := strings.Cut(text, "/")
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return nil, false
	}
	bits, err := addr.BitLen(), error(nil)
	if masked {
		bits, err = strconv.Atoi(mask)
	}
	if err == nil {
		prefix, err := addr.Prefix(bits)
		return within(prefix), err == nil
	}
	by, err := netip.ParseAddr(mask)
	if err != nil || by.BitLen() != addr.BitLen() {
		return nil, false
	}
	return masking(by.AsSlice(), addr.AsSlice()), true
}

// masking tests the bits of an address that a mask has.
func masking(mask, want []byte) func(string) Answer {
	return func(value string) Answer {
		addr, err := netip.ParseAddr(value)
		if err != nil || addr.BitLen() != len(mask)*8 {
			return No
		}
		for i, b := range addr.AsSlice() {
			if b&mask[i] != want[i]&mask[i] {
				return No
			}
		}
		return Yes
	}
}
