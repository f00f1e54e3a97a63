package explain

import (
	"fmt"
	"time"

	"github.com/portald/portald/proxy/record"
)

// mostListed bounds the last connections that are listed; more are counted.
const mostListed = 10

// recent is how the last connections ended, and what they say of the endpoints.
func (e *explained) recent() {
	e.section("Last connections")
	if len(e.Records) == 0 {
		e.add(Fact, nil, "no record of one is in memory")
		return
	}
	for _, r := range e.Records[max(0, len(e.Records)-mostListed):] {
		status := Good
		if !r.Outcome.Well() {
			status = Doubt
		}
		e.add(status, attempts(r), "%s", recordText(r, e.now))
	}
	past := history{e.Port.Name, e.Changes}
	found := gather(e.Records, past, e.now, e.Port.Policy.Or(e.node.Policy).KernelRecords)
	if found.records == 0 {
		e.add(Fact, nil, "%s", e.outdated(past.changed()))
		return
	}
	if n := found.records - mostListed; n > 0 {
		e.add(Fact, nil, "and %d more in the last %s", n, roughly(found.span))
	}
	j := judge{e.builder, e.Subject, found, e.query.means, e.ways()}
	j.list()
	j.decide()
}

// mostChanges bounds the changes that are listed.
const mostChanges = 5

// changed lists the last changes.
func (e *explained) changed() {
	if len(e.Changes) == 0 {
		return
	}
	e.section("Last changes")
	for _, c := range e.Changes[max(0, len(e.Changes)-mostChanges):] {
		e.add(Fact, nil, "%s ago: %s", roughly(e.now.Sub(c.Time)), c.Text())
	}
	if n := len(e.Changes) - mostChanges; n > 0 {
		e.add(Fact, nil, "and %d more: portald changes %s", n, e.flag())
	}
}

// outdated is why no record decides.
func (e *explained) outdated(changed time.Time) string {
	last := e.Records[len(e.Records)-1]
	if ended := last.Start.Add(last.Duration); ended.Before(changed) {
		return fmt.Sprintf("all of them ended before the Service changed, %s ago: they decide nothing",
			roughly(e.now.Sub(changed)))
	}
	return fmt.Sprintf("none of them ended in the last %s: they decide nothing", roughly(recentTime))
}

func recordText(r *record.Record, now time.Time) string {
	ended := r.Start.Add(r.Duration)
	text := fmt.Sprintf("%s ago: id %d, %s", now.Sub(ended).Round(time.Second), r.ID, r.Client)
	if r.ClientPod != "" {
		text += " (" + r.ClientPod + ")"
	}
	if r.Endpoint.Addr.IsValid() {
		text += " to " + r.Endpoint.Addr.String()
	}
	text += fmt.Sprintf(": %s%s, %d bytes up, %d down, %s", r.Outcome, behind(r.Error), r.BytesFromClient,
		r.BytesFromEndpoint, r.Duration.Round(time.Millisecond))
	return text
}

// attempts are the dials of a record that did not serve it.
func attempts(r *record.Record) (out []string) {
	for _, a := range r.Attempts {
		if a.Err == "" {
			continue
		}
		took := a.Took.Round(time.Microsecond)
		if !a.Failed() {
			out = append(out, fmt.Sprintf("dial of %s was overtaken by another after %s", a.Endpoint, took))
			continue
		}
		text := fmt.Sprintf("dial of %s failed after %s: %s", a.Endpoint, took, a.Err)
		if a.Times > 1 {
			text += fmt.Sprintf(" (%d times)", a.Times)
		}
		out = append(out, text)
	}
	return out
}

// connection is the connection that was asked for.
func (b *builder) connection(c *Connection) {
	if c == nil {
		return
	}
	b.section("Connection")
	if r := c.Record; r != nil {
		status := Good
		if !r.Outcome.Well() {
			status = Doubt
		}
		b.add(status, attempts(r), "%s, ended", recordText(r, b.report.Time))
		b.add(Fact, nil, "closed by %s with %s", r.ClosedBy, r.CloseType)
		b.find(status, fmt.Sprintf("portald explain %s --from %s", r.Service.Label(), r.Client.Addr()),
			"Connection %d of %s to %s ended as %s%s.", r.ID, r.Client, r.Service.Label(), r.Outcome, behind(r.Error))
		return
	}
	l := c.Live
	age, idle := b.report.Time.Sub(l.Start).Round(time.Second), b.report.Time.Sub(l.LastMoved).Round(time.Second)
	b.add(Fact, nil, "id %d, %s to %s, endpoint %s: %s, %s old, nothing moved for %s, %d dials", l.ID, l.Client,
		l.OriginalDst, l.Endpoint.Addr, l.State, age, idle, l.Attempts)
	b.add(Fact, nil, "%d bytes of the client, of which the endpoint took %d; %d of the endpoint, of which the client "+
		"took %d", l.BytesFromClient, l.BytesToEndpoint, l.BytesFromEndpoint, l.BytesToClient)
	if l.Removed {
		b.find(Doubt, fmt.Sprintf("portald cut %d", l.ID),
			"Connection %d of %s is to %s, which is no endpoint of %s any more, or does not serve.", l.ID, l.Client,
			l.Endpoint.Addr, l.Service.Label())
	}
	if l.State == record.StateDialing || l.State == record.StateWaiting {
		b.find(Doubt, "portald endpoints --service "+l.Service.Service().String(),
			"Connection %d of %s waits for an endpoint of %s: %d dials so far.", l.ID, l.Client, l.Service.Label(), l.Attempts)
	}
}
