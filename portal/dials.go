package portal

import (
	"fmt"
	"math/bits"
)

// DefaultDials is the mark of what the daemon sends to endpoints. It stays clear of the marks of Kubernetes (0x4000,
// 0x8000), of replies to clients' addresses (0x1000), of the CNIs (portmap 0x2000, Cilium 0xf00, AWS 0x80, Azure 0x14d,
// Calico 0xffff0000) and of WireGuard's wg-quick (0xca6c), and it is no small number, which administrators give their own.
const DefaultDials = 0x10

// CheckDials refuses a mark of dials that is not one bit, or one of others.
func CheckDials(mark, others uint32) error {
	switch {
	case bits.OnesCount32(mark) > 1:
		return fmt.Errorf("mark %#x of what is sent to endpoints: want one bit", mark)
	case mark&others != 0:
		return fmt.Errorf("mark %#x of what is sent to endpoints: the bit is that of other packets", mark)
	}
	return nil
}
