package netsh

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/netshtest"
	"github.com/portald/portald/portal/service"
)

// Whatever happens to portals, host and netsh: when nothing fails any more, the host has what the portals say.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(20) {
		inTime(t, func(r *rig) {
			m := &model{rig: r, rand: rand.New(rand.NewPCG(seed, 1)), wanted: map[service.Frontend]portal.Portal{}}
			m.replaceAll()
			for step := range 60 {
				m.step()
				if step%10 == 9 {
					m.calm()
					m.compare(fmt.Sprintf("seed %d, step %d", seed, step))
				}
			}
		})
	}
}

// model knows which portals there are to be, and does what happens to a node.
type model struct {
	*rig
	rand   *rand.Rand
	wanted map[service.Frontend]portal.Portal
	lost   bool // the last call failed: Replace comes next
}

func (m *model) step() {
	switch m.rand.IntN(10) {
	case 0:
		m.sim.Faults = []netshtest.Faults{
			{}, {NoEffect: true}, {NotElevated: true}, {HangAfter: 2}, {KillAfter: 1}, {Hang: true},
		}[m.rand.IntN(6)]
	case 1:
		m.host.Detection = time.Duration(m.rand.IntN(3)) * time.Second
	case 2: // somebody takes an address away
		if all := m.added(); len(all) > 0 {
			m.takeAway(deviceIndex, netip.MustParsePrefix(all[m.rand.IntN(len(all))]).Addr().String())
		}
		m.look()
	case 3: // the node gets an address or loses it
		if m.host.Remove(nodeIndex, netip.MustParseAddr("10.96.0.3")) != nil {
			m.host.Add(nodeIndex, netip.MustParsePrefix("10.96.0.3/24"))
		}
		m.look()
	case 4:
		m.restart()
		m.lost = true
	case 5:
		m.replaceAll()
	default:
		m.change()
	}
	if !m.lost {
		_, err := m.Sweep(m.Context())
		m.lost = err != nil
	}
	time.Sleep(time.Duration(m.rand.IntN(3000)) * time.Millisecond)
}

// look has the Writer see the host as it is. An address that goes and comes back between two looks is one that has
// stayed.
func (m *model) look() {
	if err := m.read(); err != nil {
		m.Error(err)
	}
}

// change changes a few portals of a few addresses.
func (m *model) change() {
	var changes []portal.Change
	for range 1 + m.rand.IntN(8) {
		kind, where := service.ClusterIP, fmt.Sprintf("10.96.0.%d:%d", 1+m.rand.IntN(8), 80+m.rand.IntN(2))
		switch m.rand.IntN(6) {
		case 0:
			kind, where = service.NodePort, fmt.Sprintf("0.0.0.0:%d", 30000+m.rand.IntN(3))
		case 1:
			kind, where = service.ExternalIP, fmt.Sprintf("192.168.1.10:%d", 30000+m.rand.IntN(3))
		case 2:
			where = fmt.Sprintf("[fd00::%d]:80", 1+m.rand.IntN(3))
		}
		p := redirect(fmt.Sprintf("%s shop/s%d", where, m.rand.IntN(4)), kind)
		p.Target = []portal.Target{portal.Redirect{}, portal.Redirect{}, portal.Reject{}, portal.Drop{}}[m.rand.IntN(4)]
		if slices.ContainsFunc(changes, func(c portal.Change) bool { return c.Frontend == p.Frontend }) {
			continue
		}
		if delete(m.wanted, p.Frontend); m.rand.IntN(3) == 0 {
			changes = append(changes, portal.Change{Frontend: p.Frontend})
			continue
		}
		m.wanted[p.Frontend] = p
		changes = append(changes, change(p))
	}
	if !m.lost {
		m.lost = m.Update(m.Context(), changes) != nil
	}
}

func (m *model) replaceAll() {
	var all []portal.Portal
	for _, p := range m.wanted {
		all = append(all, p)
	}
	m.lost = m.Replace(m.Context(), all) != nil
}

// calm ends what goes wrong, and lets the Writer notice.
func (m *model) calm() {
	m.sim.Faults = netshtest.Faults{}
	if m.lost {
		time.Sleep(time.Second)
		m.replaceAll()
	}
	m.pass(3 * time.Minute)
}

func (m *model) compare(when string) {
	m.Helper()
	all, _ := m.host.Interfaces()
	node := map[netip.Addr]bool{}
	for _, i := range all {
		for _, a := range i.Addresses {
			if i.Index != deviceIndex || a.Prefix.String() == "172.22.0.1/16" {
				node[a.Prefix.Addr()] = true
			}
		}
	}
	var added []string
	served := map[string]string{}
	for _, p := range m.wanted {
		if a := p.Frontend.Addr.Addr(); !a.IsUnspecified() && !node[a] {
			added = append(added, netip.PrefixFrom(a, a.BitLen()).String())
		}
		for a := range node {
			f := at(a, p.Frontend)
			if _, other := m.wanted[f]; p.Kind == service.NodePort && a.IsGlobalUnicast() && a.Is4() && !other {
				m.expect(served, p, f)
			}
		}
		if p.Kind != service.NodePort {
			m.expect(served, p, p.Frontend)
		}
	}
	slices.Sort(added)
	if got := m.added(); !slices.Equal(got, slices.Compact(added)) {
		m.Errorf("%s: addresses %q, want %q", when, got, slices.Compact(added))
	}
	unwanted := func(s string) bool { return served[s] == "" }
	if got := m.served(); len(got) != len(served) || slices.ContainsFunc(got, unwanted) {
		m.Errorf("%s: served %q, want %v", when, got, served)
	}
	if len(m.failing) > 0 {
		m.Errorf("%s: %v fail", when, m.failing)
	}
	if err := m.Audit(m.Context()); err != nil {
		m.Errorf("%s: %v", when, err)
	}
	if n := len(m.Writer.addrs); n > len(m.wanted)+1 {
		m.Errorf("%s: %d addresses are known for %d portals", when, n, len(m.wanted))
	}
}

func (m *model) expect(served map[string]string, p portal.Portal, f service.Frontend) {
	if _, redirects := p.Target.(portal.Redirect); redirects {
		served[f.String()+" "+p.Owner.Label()] = "wanted"
	}
}
