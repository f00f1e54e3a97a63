package splice

import (
	"time"

	"github.com/portald/portald/proxy/record"
)

// connMember is a connection as a member of the registry.
type connMember struct{ *Conn }

func (m connMember) common() *entry { return &m.life.entry }

func (m connMember) live() record.Live {
	l := m.life.entry.live()
	l.Removed = m.gone.Load()
	return l
}

func (m connMember) cutSoon() {
	c := m.Conn
	c.owner.Post(func(time.Duration) Step { return c.Abort(record.OutcomeCut) })
}

func (m connMember) updatePayloadSoon() { post(m.Conn, m.open().payload().policyChanged) }

func (m connMember) checkEndpoint() { m.open().checkEndpoint() }

func (m connMember) checkSilent(last, now time.Duration) { m.open().checkSilent(last, now) }

func (m connMember) countSoon() {
	c := m.Conn
	post(c, func(time.Duration) Step {
		c.life.admission.countClient(&c.life.entry)
		return Step{}
	})
}
