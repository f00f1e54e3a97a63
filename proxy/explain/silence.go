package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/reach"
	"github.com/portald/portald/proxy/kernel/flows"
)

// silence is why an endpoint does not answer.
type silence struct {
	text string
	next string // the command to run next
	gone bool   // its host does not answer, or no route leads there
	up   string // how its host shows that it is up; empty: that is not known
	path reach.Path
	now  time.Time
}

// ways tells of the endpoints of a subject why they do not answer.
type ways struct {
	*Subject
	node *Node
	now  time.Time
}

// to says why an endpoint does not answer: what a probe found, or else what the kernel knows of its host. Since is when
// somebody asked who got no answer: a host that answered after that is up.
func (w ways) to(at netip.AddrPort, since time.Time) silence {
	s := silence{now: w.now}
	pods := "kubectl get pods -o wide -n " + w.Port.Name.Namespace
	if r, probed := w.Probes[at]; probed {
		_, s.text, s.gone = judgeProbe(&r, w.now)
		s.path, s.next = r.Path, pods
		switch s.up = hostShows(&r, w.now); r.Connect {
		case reach.Accepted:
			s.text, s.next = "a probe was accepted just now, so the fault has ended, or comes and goes", "portald tail "+w.flag()
		case reach.Refused:
			s.text = "a probe was refused just now, so nothing listens there now"
		case reach.Nothing:
			if s.up != "" {
				s.next = "kubectl get networkpolicies -n " + w.Port.Name.Namespace
			}
		}
		return s
	}
	if w.node.Path != nil {
		s.path = w.node.Path(at.Addr())
	}
	s.text, s.gone = hostGone(&s.path)
	switch {
	case s.gone:
		s.next = pods
	case s.path.Up(since):
		s.up = pathShows(&s.path, w.now)
		s.text, s.next = fmt.Sprintf(portSilent, s.up), "kubectl get networkpolicies -n "+w.Port.Name.Namespace
	default:
		s.text = "its host is gone, a filter drops the packets, or its accept queue is full"
		s.next = "portald explain " + w.label() + " --probe"
	}
	return s
}

// portSilent is said of an endpoint whose host is up.
const portSilent = "its host is up (%s), and this port does not answer: a filter, or the pod's accept queue is full"

// hostGone says that an endpoint's host cannot answer, as far as the kernel knows.
func hostGone(p *reach.Path) (text string, gone bool) {
	switch {
	case p.NoRoute != "":
		return "no route (" + p.NoRoute + ")", true
	case p.Silent() && p.Via.IsValid():
		return fmt.Sprintf("the next hop %s does not answer (neighbour %s): its node is gone, or the network", p.Via,
			p.Neighbor), true
	case p.Silent():
		return fmt.Sprintf("its host does not answer (neighbour %s): pod or node is gone, or the network", p.Neighbor), true
	}
	return "", false
}

// pathShows is how a host shows that it is up, by what the kernel knows.
func pathShows(p *reach.Path, now time.Time) string {
	if p.Here {
		return "it is this node"
	}
	return fmt.Sprintf("neighbour %s, answered %s ago", p.Neighbor, roughly(max(0, now.Sub(p.Confirmed))))
}

// unreachable is why the network said that it leads to no such host.
func (s silence) unreachable() string {
	switch {
	case s.gone:
		return s.text
	case s.up != "":
		return "its host is up now (" + s.up + "), so a router or a filter said that, or the host was gone then"
	}
	return "its host is gone, or a router or a filter says so"
}

// details is what the kernel knows, as the detail of a line; nil: nothing.
func (s silence) details() []string {
	p, of := &s.path, "neighbour"
	switch {
	case p.NoRoute != "":
		return []string{"no route: " + p.NoRoute}
	case p.Neighbor == "":
		return nil
	case p.Via.IsValid():
		of = "next hop " + p.Via.String()
	}
	text := fmt.Sprintf("%s: %s", of, p.Neighbor)
	if !p.Silent() && !p.Confirmed.IsZero() {
		text += fmt.Sprintf(", answered %s ago", roughly(max(0, s.now.Sub(p.Confirmed))))
	}
	return []string{text}
}

// askedAt returns when the first client sent what an endpoint has not answered, as far as the conntrack table tells:
// each packet sets the time that an entry has left.
func (w ways) askedAt(all []flows.Flow, endpoint netip.AddrPort) time.Time {
	at := w.now
	for _, f := range all {
		if f.Replier != endpoint || f.Protocol != inet.TCP || f.State != flows.SynSent || w.node.SynSent == 0 {
			continue
		}
		asked := w.now.Add(time.Duration(f.Timeout)*time.Second - w.node.SynSent)
		at = slices.MinFunc([]time.Time{at, asked}, time.Time.Compare)
	}
	return at
}
