package portal

import (
	"fmt"
	"math/bits"
)

// Masquerade says how Writers give flows this node's own address, so that answers come back by way of it.
type Masquerade struct {
	Mark uint32 // one bit of packets' marks that tells which; 0 = DefaultMasqueradeMark
	All  bool   // whoever dials a ClusterIP, pods too
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
