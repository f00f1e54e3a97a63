package explain

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/portald/portald/proxy/record"
)

// enough is how many of the last connections, or of their dials of one endpoint, have to fail for a verdict.
const enough = 2

// recent is how the last connections ended.
func (e *explained) recent() {
	e.section("Last connections")
	if len(e.Records) == 0 {
		e.add(Fact, nil, "no record of one is in memory")
		return
	}
	failed := 0
	for _, r := range e.Records {
		status := Good
		if !r.Outcome.Well() {
			status = Doubt
			failed++
		}
		e.add(status, attempts(r), "%s", recordText(r, e.now))
	}
	if at, n, why := worstDialled(e.Records); n >= enough && failed < len(e.Records) {
		e.find(Doubt, "portald endpoints "+e.flag(),
			"Dials of endpoint %s failed in %d of the last %d connections of %s: %s.", at, n, len(e.Records), e.label(), why)
	}
	if last := e.Records[len(e.Records)-1]; failed == len(e.Records) && failed >= enough {
		e.find(Doubt, "portald tail "+e.flag(), "The last %d connections of %s failed; the last one ended as %s%s.", failed,
			e.label(), last.Outcome, behind(last.Error))
	}
}

// worstDialled is the endpoint that most of these failed to dial, how many did, and the last error.
func worstDialled(records []*record.Record) (at netip.AddrPort, n int, why string) {
	failed := map[netip.AddrPort]int{}
	for _, r := range records {
		for _, a := range r.Attempts {
			if a.Err == "" || a.Hedge && !a.Failed() { // a first dial that is overtaken had its time
				continue
			}
			failed[a.Endpoint]++
			if failed[a.Endpoint] >= n {
				at, n, why = a.Endpoint, failed[a.Endpoint], a.Err
			}
		}
	}
	return at, n, why
}

func behind(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
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
