package api

import (
	"strings"
	"syscall"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// linkCut drops all packets to the control plane's host for a time. The API server keeps running.
func (f *faults) linkCut() {
	m := f.newMissed()
	f.underTraffic(func() {
		f.link("-I")
		m.happen()
		f.site.Eventually("the log to report the loss", func() bool {
			return said(f.site.D, isAway) > said(f.site.D, isBack)
		})
		f.healthy()
		if got := apibed.Outcome(apibed.AnswerTimeout, f.site.Client, "tcp", m.gone); got != "a0" {
			f.Errorf("a client of a known Service gets %s, want a0", got)
		}
	}, func() { f.link("-D") }, m.known)
}

// link inserts or deletes rules that drop all packets between the node and the control plane's host.
func (f *faults) link(verb string) {
	f.Helper()
	control := f.API.Host.IPv4.String()
	f.site.On(f.site.Node, "iptables", verb, "INPUT", "-s", control, "-j", "DROP")
	f.site.On(f.site.Node, "iptables", verb, "OUTPUT", "-d", control, "-j", "REJECT", "--reject-with",
		"icmp-net-unreachable")
}

// standsStill makes the daemon miss changes. The API server then restarts without watch history, so that the daemon has
// to list all objects again.
func (f *faults) standsStill() {
	m := f.newMissed()
	f.site.D.Signal(syscall.SIGSTOP)
	m.happen()
	f.site.Must(f.API.Kill(cluster.APIServer))
	f.site.Must(f.API.Start(cluster.APIServer))
	f.site.D.Signal(syscall.SIGCONT)
	m.known()
}

// missed is a set of changes that the daemon cannot watch.
type missed struct {
	*faults
	gone, bare, moved, again, fresh, recreated string // addresses of the Services
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

// happen deletes the Service gone and the slice of bare, gives moved another endpoint, creates fresh, and deletes and
// creates again.
func (m *missed) happen() {
	m.Helper()
	m.remove("gone")
	m.removeSlice("bare")
	m.lead("moved", m.pods(1)...)
	m.fresh = m.service("fresh", bed.PodPort, m.pods(2)...)
	m.remove("again")
	m.recreated = m.service("again", bed.PodPort, m.pods(1)...)
}

// known waits until the daemon serves the current objects and no deleted ones.
func (m *missed) known() {
	m.Helper()
	m.meet(m.fresh, "a2")
	m.meet(m.moved, "a1")
	m.meet(m.recreated, "a1")
	m.meet(m.bare, apibed.Refused)
	m.meet(m.gone, apibed.NoReply)
	if m.again != m.recreated {
		m.meet(m.again, apibed.NoReply)
	}
	if rules := m.site.Rules(); strings.Contains(rules, "faults/gone") {
		m.Errorf("rules of a deleted Service:\n%s", rules)
	}
	for _, name := range []string{"bare", "moved", "fresh", "again"} {
		m.remove(name)
	}
}
