package platform

// Divert has routing deliver marked packets to this host itself, whoever's address they are to: what endpoints answer to
// the addresses of clients that the daemon dials from. Something before routing has to mark them. It asks nothing of
// sysctls: the reverse-path filter may be strict, and marks may count in it. Needs CAP_NET_ADMIN.
type Divert struct {
	Mark     uint32 // the bits that a packet must have
	Table    int    // of routes, for nothing else
	Priority int    // of the first of DivertRules that lead there: before all that would route the packets otherwise
}

// DivertRules is how many rules of routing there are, one priority after the other.
const DivertRules = 3

// DefaultDivert stays clear of the marks of Kubernetes (0x4000, 0x8000) and of the CNIs (portmap 0x2000, Cilium 0xf00,
// AWS 0x80, Calico 0xffff0000), and comes before their rules (AWS from 512 on, Cilium from 9 on for marks of its own).
func DefaultDivert() Divert { return Divert{Mark: 0x1000, Table: 0x1000, Priority: 64} }
