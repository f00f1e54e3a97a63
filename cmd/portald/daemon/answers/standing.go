package answers

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/kube/translate"
)

// standing is what a service port can do for its clients now.
type standing struct {
	inventory *Inventory
	port      *service.Port
	states    []string // of its endpoints, in their order: a service.Use, or one of adminsocket
	failing   map[netip.AddrPort]string
	told      []translate.Problem // of its Service
}

// unreached is how many dials in a row fail of an endpoint that is said to fail: as many as eject one by default.
const unreached = 3

// failing tells why endpoints fail connections: those that are ejected, or in kernel mode those whose last dials
// failed.
func failing(ejected map[netip.AddrPort]balance.EjectionStatus, ended *flows.Ended) map[netip.AddrPort]string {
	out := map[netip.AddrPort]string{}
	for at, e := range ejected {
		out[at] = e.For.String()
	}
	if ended != nil && ended.Wants == service.RecordsAll {
		for at, e := range ended.Endpoints {
			if e.Unreached >= unreached {
				out[at] = e.LastError
			}
		}
	}
	return out
}

// problems returns why clients are not served, or not as the Service asks, the most important first.
func (s *standing) problems() (all []string) {
	p, i := s.port, s.inventory
	if mode := p.Mode.Or(i.Mode).Or(service.ModeUserspace); !mode.Carries(p.Name.Protocol) {
		all = append(all, fmt.Sprintf("mode: %s does not carry %s, clients are refused; annotate the Service with "+
			"portald.io/mode: %s", mode, p.Name.Protocol, service.ModeKernel))
	}
	if why := i.Problems.ofPort(p.Name); why != "" {
		all = append(all, why)
	}
	none, some := s.endpointProblems()
	all = append(append(all, none...), i.Problems.ofFrontends(p)...)
	for _, x := range p.Exposures {
		if at := i.PortalAt(x.Frontend); at != nil && at.Owner != p.Name {
			all = append(all, fmt.Sprintf("%s is held by %s", x.Frontend, at.Owner.Label()))
		}
	}
	parts, ignored := s.toldProblems()
	return slices.Concat(all, parts, some, ignored)
}

// endpointProblems tells why there is no endpoint that works (none), or which does not (some).
func (s *standing) endpointProblems() (none, some []string) {
	counts, used := map[string]int{}, 0
	var fail []string
	for at, state := range s.states {
		counts[state]++
		if state != string(service.Used) && state != adminsocket.Ejected {
			continue
		}
		used++
		if why, is := s.failing[s.port.Endpoints[at].Addr]; is {
			fail = append(fail, fmt.Sprintf("%s (%s)", s.port.Endpoints[at].Addr, why))
		}
	}
	switch {
	case len(s.states) == 0:
		return []string{"no endpoint"}, nil
	case used == 0:
		var why []string
		for _, state := range slices.Sorted(maps.Keys(counts)) {
			why = append(why, fmt.Sprintf("%d %s", counts[state], state))
		}
		return []string{"no usable endpoint: " + strings.Join(why, ", ")}, nil
	case len(fail) == 0:
		return nil, nil
	}
	const most = 3
	list := strings.Join(fail[:min(len(fail), most)], ", ")
	if len(fail) > most {
		list += ", …"
	}
	text := []string{fmt.Sprintf("%d of %d endpoints fail connections: %s", len(fail), used, list)}
	if len(fail) == used {
		return text, nil
	}
	return nil, text
}

// toldProblems tells what of the Service is not served, and which annotations have no effect, or another one.
func (s *standing) toldProblems() (parts, ignored []string) {
	for _, p := range s.told {
		if text, is := p.OfAnnotation(); is {
			ignored = append(ignored, text)
		} else {
			parts = append(parts, p.Error())
		}
	}
	slices.Sort(parts)
	slices.Sort(ignored)
	return parts, ignored
}
