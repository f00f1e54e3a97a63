package metrics

import (
	"slices"

	"github.com/portald/portald/proxy/record"
)

// counts are of one service port, or of several.
type counts struct {
	endings                  []ending // in the order seen
	fromClient, fromEndpoint uint64   // bytes
	dialled, dialFailed      uint64
	overtaken                uint64
	hedgesWon, hedgesLost    uint64
	replays                  uint64
}

// ending counts the connections with one kind of portal and one outcome.
type ending struct {
	portal  string
	outcome record.Outcome
	n       uint64
}

func (c *counts) observe(r *record.Record) {
	portal := r.Portal.String()
	if r.Outcome == record.OutcomeNotPortal {
		portal = ""
	}
	c.ended(portal, r.Outcome, 1)
	c.fromClient += uint64(max(0, r.BytesFromClient))
	c.fromEndpoint += uint64(max(0, r.BytesFromEndpoint))
	c.replays += uint64(max(0, r.Replays))
	for i := range r.Attempts {
		c.attempted(&r.Attempts[i])
	}
}

func (c *counts) attempted(a *record.Attempt) {
	n := uint64(max(1, a.Times))
	switch {
	case a.Err == "":
		c.dialled++
	case a.Failed():
		c.dialFailed += n
	default:
		c.overtaken += n
	}
	switch {
	case !a.Hedge:
	case a.Err == "":
		c.hedgesWon++
	default:
		c.hedgesLost += n
	}
}

func (c *counts) ended(portal string, outcome record.Outcome, n uint64) {
	for i := range c.endings {
		if e := &c.endings[i]; e.outcome == outcome && e.portal == portal {
			e.n += n
			return
		}
	}
	c.endings = append(c.endings, ending{portal, outcome, n})
}

func (c *counts) add(o *counts) {
	for _, e := range o.endings {
		c.ended(e.portal, e.outcome, e.n)
	}
	c.fromClient += o.fromClient
	c.fromEndpoint += o.fromEndpoint
	c.dialled += o.dialled
	c.dialFailed += o.dialFailed
	c.overtaken += o.overtaken
	c.hedgesWon += o.hedgesWon
	c.hedgesLost += o.hedgesLost
	c.replays += o.replays
}

func (c *counts) clone() *counts {
	out := *c
	out.endings = slices.Clone(c.endings)
	return &out
}
