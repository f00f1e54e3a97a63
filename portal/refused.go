package portal

import (
	"time"

	"github.com/portald/portald/portal/service"
)

// Refused are packets of clients that the rules of a service port's portals refused or dropped.
type Refused struct {
	Owner   service.PortName
	Packets uint64    // that were not told of before; 0: rules that refuse were written
	Since   time.Time // when portals of the service port began to refuse
}

// Refuses tells whether a portal has no endpoint for some clients, and refuses or drops their packets. Where others are
// dropped at the same portal for another reason, source ranges, it is false: rules cannot tell these apart.
func (p Portal) Refuses() bool {
	switch to := p.Target.(type) {
	case Reject, Drop:
		return true
	case Redirect:
		return to.Inside
	case Spread:
		return !to.Restricted(p.Kind) && len(to.Pool.Of(to.Scope)) == 0
	}
	return false
}
