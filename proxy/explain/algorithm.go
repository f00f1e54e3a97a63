package explain

import (
	"fmt"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// algorithm is how the kernel chooses endpoints, as its rules were written.
func (e *explained) algorithm() {
	if e.Applied == nil {
		return
	}
	for _, p := range e.Applied.Claims {
		if to, spreads := p.Target.(portal.Spread); spreads {
			e.add(Fact, nil, "the kernel's algorithm is %s", e.chosenBy(to.Pool))
			return // all of a service port are alike
		}
	}
}

func (e *explained) chosenBy(pool *portal.Pool) (text string) {
	switch {
	case pool.Algorithm == service.AlgorithmDefault && e.node.Writer == "ipvs":
		text = fmt.Sprintf("the scheduler %s (ipvs.scheduler)", e.node.Scheduler)
	case pool.Algorithm == service.AlgorithmDefault:
		text = "random, as where nothing is asked for"
	case pool.Algorithm == e.Port.Policy.Algorithm:
		text = pool.Algorithm.String() + ", by the annotation portald.io/algorithm of the Service"
	default:
		text = pool.Algorithm.String() + ", the default of this node"
	}
	if pool.Affinity > 0 {
		text += ", and binds clients to what it chose"
	}
	return text
}
