package webui

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
)

// The bounds of what is asked for at a time: of records of all nodes, of which each gives its share, within bounds of
// its own; and of changes of one node.
const (
	mostRecords  = 20_000
	mostOfNode   = 2000
	leastOfNode  = 100
	mostChanges  = 500
	mostTimeline = 24 * time.Hour
)

// bins is how many parts the time line has.
const bins = 60

// Endings is the page of how connections ended, and of what changed meanwhile.
type Endings struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Bins count what ended in each part of that time. KnownSince is when all nodes have all records from.
	Bins       []int          `json:"bins"`
	KnownSince time.Time      `json:"known_since"`
	Outcomes   map[string]int `json:"outcomes"`
	Endings    []*Ending      `json:"endings"` // the latest first
	Total      int            `json:"total"`
	Changes    []*Change      `json:"changes"` // the latest first
	Away       []Away         `json:"away"`
}

// Ending is a connection that has ended.
type Ending struct {
	PortaldNode string        `json:"portald_node"`
	At          time.Time     `json:"at"` // when it ended
	What        string        `json:"what"`
	Story       []Step        `json:"story"`
	Record      *connlog.Line `json:"record"`
}

// heard is what one node has.
type heard struct {
	records []connlog.Line
	full    bool // it may have older ones
	since   time.Time
	changes []*Change
}

// endings tells how connections ended, and what changed, within the time of a query.
func (c *cluster) endings(ctx context.Context, query url.Values) (any, error) {
	to := time.Now().UTC()
	length, err := time.ParseDuration(cmp.Or(query.Get("window"), "15m"))
	if err != nil || length < time.Minute || length > mostTimeline {
		return nil, fmt.Errorf("window %q: must be from 1m to 24h", query.Get("window"))
	}
	from := to.Add(-length)
	nodes, away := c.here()
	records, err := recordQuery(query, from)
	if err != nil {
		return nil, err
	}
	records.Last = min(max(mostRecords/max(len(nodes), 1), leastOfNode), mostOfNode)
	changed := adminsocket.ChangeQuery{Since: from, Last: mostChanges}
	if s := query.Get("service"); s != "" {
		changed.Services = []string{exactly(s)}
	}
	answers, silent := apart(ask(ctx, c.limit, nodes,
		func(ctx context.Context, client *adminsocket.Client) (heard, error) {
			return hear(ctx, client, records, changed)
		}))
	out := Endings{From: from, To: to, Bins: make([]int, bins), KnownSince: from, Outcomes: map[string]int{},
		Endings: []*Ending{}, Changes: []*Change{}, Away: append(away, silent...)}
	for _, a := range answers {
		out.take(a.node, &a.it)
	}
	out.finish()
	return out, nil
}

// recordQuery selects by outcome: failed, retried (a dial of it failed) or all.
func recordQuery(query url.Values, since time.Time) (adminsocket.RecordQuery, error) {
	var q adminsocket.RecordQuery
	add := func(name, value string) error { return q.Filter.Add(false, name, value, time.Now()) }
	err := add("since", since.Format(time.RFC3339Nano))
	if s := query.Get("service"); s != "" && err == nil {
		err = add("service", exactly(s))
	}
	if e := query.Get("endpoint"); e != "" && err == nil {
		err = add("endpoint", e)
	}
	switch kind := query.Get("kind"); {
	case err != nil:
	case kind == "" || kind == "failed":
		err = add("outcome", "failed")
	case kind == "retried":
		err = add("attempts", ">1")
	case kind != "all":
		err = fmt.Errorf("kind %q: must be failed, retried or all", kind)
	}
	return q, err
}

func hear(
	ctx context.Context, client *adminsocket.Client, records adminsocket.RecordQuery, changed adminsocket.ChangeQuery,
) (h heard, err error) {
	info, err := client.Info(ctx)
	if err != nil {
		return h, err
	}
	h.since = info.RecordsSince
	noGap := func(adminsocket.Gap) error { return nil } // there is none without follow
	err = client.Records(ctx, records, func(l *connlog.Line) error {
		h.records = append(h.records, *l)
		return nil
	}, noGap)
	h.full = len(h.records) >= records.Last
	if err == nil {
		h.changes, err = changesOf(ctx, client, changed)
	}
	return h, err
}

// take takes what a node has.
func (e *Endings) take(node string, h *heard) {
	known := h.since
	for i := range h.records {
		l := &h.records[i]
		at := l.End().UTC()
		if i == 0 && h.full {
			known = at
		}
		if at.Before(e.From) {
			continue
		}
		part := int(int64(at.Sub(e.From)) * bins / int64(e.To.Sub(e.From)))
		e.Bins[min(part, bins-1)]++
		e.Total++
		e.Outcomes[string(l.Outcome)]++
		e.Endings = append(e.Endings, &Ending{PortaldNode: node, At: at, Record: l})
	}
	if known.After(e.KnownSince) {
		e.KnownSince = known.UTC()
	}
	for _, c := range h.changes {
		c.Nodes = []string{node}
	}
	e.Changes = append(e.Changes, h.changes...)
	e.trim()
}

// trim keeps the latest endings.
func (e *Endings) trim() {
	slices.SortStableFunc(e.Endings, func(a, b *Ending) int { return b.At.Compare(a.At) })
	if len(e.Endings) > mostShown {
		clear(e.Endings[mostShown:])
		e.Endings = e.Endings[:mostShown]
	}
}

func (e *Endings) finish() {
	for _, one := range e.Endings {
		one.What, one.Story = Sentence(one.Record), Story(one.Record)
	}
	e.Changes = together(e.Changes)
}
