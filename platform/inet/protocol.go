package inet

import "fmt"

// Protocol is a transport protocol, numbered as in the IP header.
type Protocol uint8

// The protocols that a Kubernetes Service may name.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// String is the lower-case name, as iptables and records write it.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}
