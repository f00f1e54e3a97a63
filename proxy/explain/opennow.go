package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
)

// What is open has this long to be answered, at least, before it is told.
const (
	answerTime     = 5 * time.Second // bytes of a client
	udpAnswerTime  = time.Second
	dialTime       = time.Second
	mostRetransmit = 3 // segments
)

// openTally is what is open to one endpoint.
type openTally struct {
	at      netip.AddrPort
	open    int
	mute    int // the endpoint has sent nothing since the client sent
	stuck   int // the endpoint does not take what the client sends
	lost    int // segments to it are sent again and again
	longest time.Duration
}

// openNow is what the open connections of a subject say.
type openNow struct {
	*builder
	*Subject
	now time.Time
}

func (o *openNow) list() {
	if len(o.Live) == 0 {
		return
	}
	o.section("Open connections")
	tallies, waiting, longest := o.openTallies()
	replied := slices.ContainsFunc(o.Live, func(l record.Live) bool { return l.BytesFromEndpoint > 0 }) ||
		slices.ContainsFunc(o.Records, func(r *record.Record) bool { return r.BytesFromEndpoint > 0 })
	if waiting > 0 {
		o.add(Doubt, nil, "%s without an endpoint, for up to %s", count(waiting, "connection"), roughly(longest))
		o.find(Doubt, "portald conns "+o.flag()+" --state dialing --state waiting",
			"%s of %s waited for an endpoint to answer for up to %s.", count(waiting, "connection"), o.label(), roughly(longest))
	}
	for _, t := range tallies {
		o.openAt(t, replied)
	}
	if o.MoreLive > 0 {
		o.add(Fact, nil, "%d more were not looked at", o.MoreLive)
	}
}

// openTallies counts by endpoint, in the order of addresses, and what has no endpoint yet.
func (o *openNow) openTallies() (all []*openTally, waiting int, longest time.Duration) {
	of := map[netip.AddrPort]*openTally{}
	for i := range o.Live {
		l := &o.Live[i]
		age := o.now.Sub(l.Start)
		if l.State == record.StateDialing || l.State == record.StateWaiting {
			if age >= dialTime {
				waiting, longest = waiting+1, max(longest, age)
			}
			continue
		}
		t := of[l.Endpoint.Addr]
		if t == nil {
			t = &openTally{at: l.Endpoint.Addr}
			of[t.at], all = t, append(all, t)
		}
		t.count(l, o.now)
	}
	slices.SortFunc(all, func(a, b *openTally) int { return a.at.Compare(b.at) })
	return all, waiting, longest
}

func (t *openTally) count(l *record.Live, now time.Time) {
	t.open++
	idle, least := now.Sub(l.LastMoved), answerTime
	if l.Service.Protocol == inet.UDP {
		least = udpAnswerTime
	}
	bad := true
	switch {
	case l.EndpointTCP.Lost > 0 && l.EndpointTCP.Retransmits >= mostRetransmit:
		t.lost++
	case idle < least:
		bad = false
	case l.BytesFromClient > l.BytesToEndpoint:
		t.stuck++
	case l.BytesFromClient > 0 && l.BytesFromEndpoint == 0:
		t.mute++
	default:
		bad = false
	}
	if bad {
		t.longest = max(t.longest, idle)
	}
}

// openAt says what is open to an endpoint, and finds what waits for it.
func (o *openNow) openAt(t *openTally, replied bool) {
	status, text := Good, ""
	for _, f := range []struct {
		n         int
		text, did string
	}{
		{t.lost, "to which segments are lost", "send segments again and again, which its host does not acknowledge"},
		{t.stuck, "whose bytes it does not take", "have bytes that it does not take"},
		{t.mute, "that it has not answered", "have sent something, and got nothing back"},
	} {
		if f.n == 0 {
			continue
		}
		text += fmt.Sprintf(", %d %s for up to %s", f.n, f.text, roughly(t.longest))
		if status = Doubt; f.n >= enough && f.n*oneIn >= t.open {
			hedge := ""
			if f.n == t.mute && !replied {
				hedge = oneWay
			}
			o.find(Doubt, "portald conns "+o.flag()+" --endpoint "+t.at.String()+" -o wide",
				"%d of %s to %s as an endpoint of %s %s for up to %s%s.", f.n, count(t.open, "open connection"), o.name(t.at),
				o.label(), f.did, roughly(t.longest), hedge)
		}
	}
	o.add(status, nil, "%s: %s%s", o.name(t.at), count(t.open, "open connection"), text)
}
