package iptables

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
)

// family has the differences between IPv4 and IPv6 in the rules.
type family struct {
	command  string // its name without the variant
	ip       inet.Family
	loopback netip.Prefix
	everyBit string                   // of an address, as a mask
	rejected map[inet.Protocol]string // the --reject-with that clients see as "connection refused"
}

func familyOf(ip inet.Family) family {
	if ip == inet.IPv6 {
		return ipv6()
	}
	return ipv4()
}

func ipv4() family {
	return family{
		command:  "iptables",
		loopback: netip.MustParsePrefix("127.0.0.0/8"),
		everyBit: "255.255.255.255",
		rejected: rejected("icmp-port-unreachable"),
	}
}

func ipv6() family {
	return family{
		command:  "ip6tables",
		ip:       inet.IPv6,
		loopback: netip.MustParsePrefix("::1/128"),
		everyBit: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		rejected: rejected("icmp6-port-unreachable"),
	}
}

// TCP clients get a reset instead of an ICMP error: the kernel limits ICMP errors to a few a second for each host,
// and a client that gets none waits for seconds. For other protocols iptables has only ICMP.
func rejected(unreachable string) map[inet.Protocol]string {
	return map[inet.Protocol]string{inet.TCP: "tcp-reset", inet.UDP: unreachable, inet.SCTP: unreachable}
}

// owns tells whether an address is of this family.
func (f family) owns(addr netip.Addr) bool { return inet.FamilyOf(addr) == f.ip }

// bits writes the low 16 bits of an address as an address of the family: a value or a mask to match them by.
func (f family) bits(low uint16) string {
	hi, lo := byte(low>>8), byte(low)
	if f.ip == inet.IPv6 {
		return netip.AddrFrom16([16]byte{14: hi, 15: lo}).String()
	}
	return netip.AddrFrom4([4]byte{2: hi, 3: lo}).String()
}

// commandName is the name of a command of the family; action is "", "restore" or "save".
func (f family) commandName(variant, action string) string {
	name := f.command
	for _, part := range []string{variant, action} {
		if part != "" {
			name += "-" + part
		}
	}
	return name
}
