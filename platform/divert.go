package platform

// Divert is policy routing that delivers marked packets to this host, whatever their destination address: replies of
// endpoints to the clients' addresses that the daemon dials from. Rules before routing have to set the mark. It needs
// no sysctls: it works with a strict reverse-path filter, and with src_valid_mark. Needs CAP_NET_ADMIN.
type Divert struct {
	Mark     uint32 // bits that a packet must have
	Table    int    // the routing table, used for nothing else
	Priority int    // of the first of DivertRules routing rules, before all others that match such packets
}

// DivertRules is the number of routing rules, with consecutive priorities.
const DivertRules = 3

// DefaultDivert avoids the marks of Kubernetes (0x4000, 0x8000) and of CNIs (portmap 0x2000, Cilium 0xf00, AWS 0x80,
// Calico 0xffff0000), and precedes their routing rules (AWS from 512 on, Cilium from 9 on for marks of its own).
func DefaultDivert() Divert { return Divert{Mark: 0x1000, Table: 0x1000, Priority: 64} }
