package nftables

import (
	"fmt"

	"github.com/portald/portald/proxy/service"
)

// plain leads to endpoints, after what external portals and the node's own flows need. It looks twice as well: a portal may
// go from one class to another meanwhile. One that was gone by then leaves no mark.
func (r rules) plain(s scope) []rule {
	var out []rule
	if s.external == nil {
		out = append(out, rule{mark{r.masquerade.Mark}})
	} else {
		out = append(out, rule{member{s.external}, mark{r.masquerade.Mark}}, rule{jump(markClients)})
	}
	return append(out, rule{jump(s.classes())}, rule{jump(s.classes())}, rule{unmark{r.masquerade.Mark}})
}

// classes is the chain that looks for a portal's endpoints.
func (s scope) classes() string { return endpointsOf + "-" + s.name }

// class is the plain portals of a scope that have the same number of endpoints.
type class struct {
	scope  string
	number int
}

func (c class) name() string { return fmt.Sprintf("%s-%s-%d", endpointsOf, c.scope, c.number) }

// chain leads to the endpoints. It is a chain of its own because the kernel walks all of a map for a new rule that asks
// it: a new class has nothing yet, and the rules of others stay.
func (c class) chain(s *set) chain {
	all := protocols{service.TCP, service.UDP, service.SCTP}
	return chain{name: c.name(), rules: []rule{{all, spreadBy{s}}}}
}

// classesChain asks the classes, one after the other.
func classesChain(s scope, all []class) chain {
	c := chain{name: s.classes()}
	for _, class := range all {
		c.rules = append(c.rules, rule{jump(class.name())})
	}
	return c
}
