package portal

import (
	"fmt"
	"math/bits"
)

// Masquerade says how Writers give flows this node's own address, so that answers come back by way of it.
type Masquerade struct {
	Mark uint32 // one bit of packets' marks, set in those to masquerade; 0 = DefaultMasqueradeMark
	All  bool   // all clients of ClusterIPs, pods too
}

// DefaultMasqueradeMark is kube-proxy's bit 14, which other programs of a node leave alone.
const DefaultMasqueradeMark = 0x4000

// Complete sets the default, and refuses a mark that is not one bit.
func (m *Masquerade) Complete() error {
	if m.Mark == 0 {
		m.Mark = DefaultMasqueradeMark
	}
	if bits.OnesCount32(m.Mark) != 1 {
		return fmt.Errorf("mark %#x of what is masqueraded: want one bit", m.Mark)
	}
	return nil
}

// DefaultDials is the mark of the daemon's own packets to endpoints. It has no bit in common with the marks of
// Kubernetes (0x4000, 0x8000), of replies to clients' addresses (0x1000), of the CNIs (portmap 0x2000, Cilium 0xf00,
// AWS 0x80, Azure 0x14d, Calico 0xffff0000) and of WireGuard's wg-quick (0xca6c), and it is not one of the smallest
// numbers, which administrators choose for their own marks.
const DefaultDials = 0x10

// CheckDials returns an error for a mark of dials that is more than one bit, or one of others.
func CheckDials(mark, others uint32) error {
	switch {
	case bits.OnesCount32(mark) > 1:
		return fmt.Errorf("mark %#x of what is sent to endpoints: want one bit", mark)
	case mark&others != 0:
		return fmt.Errorf("mark %#x of what is sent to endpoints: the bit is that of other packets", mark)
	}
	return nil
}
