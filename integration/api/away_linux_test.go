package api

import (
	"strings"
	"syscall"
	"time"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// linkCut has the control plane's host out of reach: packets are lost. The API server is the same when it is over.
func (f *faults) linkCut() {
	m := f.newMissed()
	f.underTraffic(func() {
		f.link("-I")
		m.happen()
		if !bed.Within(noticed, func() bool { return said(f.site.D, isAway) > said(f.site.D, isBack) }) {
			f.Errorf("waited %v for the loss to be said", noticed)
		}
		f.healthy()
		if got := apibed.Outcome(apibed.AnswerTimeout, f.site.Client, "tcp", m.gone); got != "a0" {
			f.Errorf("a Service that is known meets %s, want a0", got)
		}
		f.link("-D")
	}, m.known)
}

// noticed is how long the daemon may take to see that nothing comes any more: silence, a question, and tries at
// intervals.
const noticed = 30 * time.Second

// link inserts or deletes rules by which no packet goes between the node and the control plane's host.
func (f *faults) link(verb string) {
	f.Helper()
	control := f.API.Host.IPv4.String()
	f.site.On(f.site.Node, "iptables", verb, "INPUT", "-s", control, "-j", "DROP")
	f.site.On(f.site.Node, "iptables", verb, "OUTPUT", "-d", control, "-j", "REJECT", "--reject-with",
		"icmp-net-unreachable")
}

// standsStill has the daemon miss changes, and then meet another API server that cannot tell it which they were: it
// lists anew.
func (f *faults) standsStill() {
	m := f.newMissed()
	f.site.D.Signal(syscall.SIGSTOP)
	m.happen()
	f.site.Must(f.API.Kill(cluster.APIServer))
	f.site.Must(f.API.Start(cluster.APIServer))
	f.site.D.Signal(syscall.SIGCONT)
	m.known()
}

// missed are changes that happen while nobody can tell the daemon of them.
type missed struct {
	*faults
	gone, bare, moved, again, fresh, anew string // where clients dial
}

func (f *faults) newMissed() *missed {
	f.Helper()
	f.serves()
	m := &missed{faults: f}
	for name, at := range map[string]*string{"gone": &m.gone, "bare": &m.bare, "moved": &m.moved, "again": &m.again} {
		*at = f.service(name, bed.PodPort, f.pods(0)...)
		f.meet(*at, "a0")
	}
	return m
}

// happen deletes a Service, the endpoints of another, moves a third, and makes a fourth that is new and a fifth that
// only its name has in common with one that was.
func (m *missed) happen() {
	m.Helper()
	m.remove("gone")
	m.removeSlice("bare")
	m.lead("moved", m.pods(1)...)
	m.fresh = m.service("fresh", bed.PodPort, m.pods(2)...)
	m.remove("again")
	m.anew = m.service("again", bed.PodPort, m.pods(1)...)
}

// known waits until the daemon serves what is, and nothing of what was.
func (m *missed) known() {
	m.Helper()
	m.meet(m.fresh, "a2")
	m.meet(m.moved, "a1")
	m.meet(m.anew, "a1")
	m.meet(m.bare, apibed.Refused)
	m.meet(m.gone, apibed.NoReply)
	if m.again != m.anew {
		m.meet(m.again, apibed.NoReply)
	}
	if rules := m.site.Rules(); strings.Contains(rules, "faults/gone") {
		m.Errorf("rules of a Service that was deleted:\n%s", rules)
	}
	for _, name := range []string{"bare", "moved", "fresh", "again"} {
		m.remove(name)
	}
}
