package webui

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

// budget is how many bytes a second all nodes together may have to tell: 200 nodes with 2,000 Services have 280 MB.
const budget = 8 << 20

// limits bound what is remembered. What is beyond is left out, and said.
type limits struct {
	rows   int // service ports, of each on each node
	active int // service ports that have carried something while we looked
}

// ofCommand are those of a command, which has the memory of a user's computer.
var ofCommand = limits{rows: 1_000_000, active: 100_000}

// cluster is what all nodes have told so far. Safe for concurrent use.
type cluster struct {
	limits limits
	limit  time.Duration // for one node's answer

	mu      sync.Mutex
	began   time.Time
	nodes   []*watched
	rows    map[key]*row
	told    int  // tallies in rows
	active  int  // rows with a past
	leftOut bool // some rows were
	words   map[string]string
}

type key struct{ name, protocol string }

// watched is a node that is asked again and again. Its fields are guarded by the cluster's lock.
type watched struct {
	Node
	place  int
	passes uint64 // that were complete
	size   int    // bytes of the largest one
	heard  time.Time
	why    string // it does not answer; empty: it does, or was not asked yet
	info   adminsocket.Info
}

func newCluster(nodes []Node, wait time.Duration) *cluster {
	c := &cluster{limits: ofCommand, limit: wait}
	for i, n := range nodes {
		c.nodes = append(c.nodes, &watched{Node: n, place: i})
	}
	c.forget()
	return c
}

// forget begins anew: what nodes tell next is the first that they tell.
func (c *cluster) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began, c.rows, c.words = time.Now(), map[key]*row{}, map[string]string{}
	c.told, c.active, c.leftOut = 0, 0, false
	for _, n := range c.nodes {
		n.heard, n.why = time.Time{}, ""
	}
}

// watch asks each node again and again, until ctx ends.
func (c *cluster) watch(ctx context.Context, every time.Duration) {
	var wg sync.WaitGroup
	for _, n := range c.nodes {
		wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				c.pass(ctx, n)
				wait(ctx, max(every, c.rest(n, time.Since(began))))
			}
		})
	}
	wg.Wait()
}

// rest is how long a node is not asked again after what it was asked took so long: no more than a tenth of its time,
// and its share of the budget.
func (c *cluster) rest(n *watched, took time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(9*took, time.Duration(n.size*len(c.nodes))*time.Second/budget)
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// pass asks a node once.
func (c *cluster) pass(ctx context.Context, n *watched) {
	ctx, cancel := within(ctx, c.limit)
	defer cancel()
	info, err := n.Client.Info(ctx)
	size := 0
	if err == nil {
		c.introduce(n, info)
		err = n.Client.EachRow(ctx, "/v1/services", nil, func(text []byte) error {
			size += len(text)
			var s adminsocket.Service
			if err := json.Unmarshal(text, &s); err != nil {
				return fmt.Errorf("read portald's answer: %w", err)
			}
			c.take(n, &s)
			return nil
		})
	}
	c.passed(n, size, why(ctx, err))
}

func (c *cluster) introduce(n *watched, info adminsocket.Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.info = info
}

// take takes what a node tells of one service port.
func (c *cluster) take(n *watched, s *adminsocket.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := key{s.Name, s.Protocol}
	r := c.rows[k]
	if r == nil || r.nodes[n.place] == nil {
		if c.told >= c.limits.rows {
			c.leftOut = true
			return
		}
		c.told++
	}
	if r == nil {
		r = &row{name: s.Name, protocol: s.Protocol, nodes: make([]*tally, len(c.nodes))}
		c.rows[k] = r
	}
	t := tallyOf(s)
	t.mode, t.modeFrom, t.problem = c.word(t.mode), c.word(t.modeFrom), c.word(t.problem)
	t.pass = n.passes
	had := r.past != nil
	r.told(n.place, t, n.heard, time.Now(), c.active < c.limits.active)
	if !had && r.past != nil {
		c.active++
	}
	c.leftOut = c.leftOut || r.crowded
}

// mostWords bounds the texts that are kept once.
const mostWords = 1000

// word is a text that many nodes tell, kept once.
func (c *cluster) word(text string) string {
	if known, is := c.words[text]; is {
		return known
	}
	if len(c.words) < mostWords {
		c.words[text] = text
	}
	return text
}

// passed ends a pass. What the node did not tell of in it, it does not have any more.
func (c *cluster) passed(n *watched, size int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.size = max(n.size, size)
	if err != nil {
		n.why = err.Error()
		return
	}
	now := time.Now()
	for k, r := range c.rows {
		if r.past != nil && r.past.isOver(now) {
			r.past = nil
			c.active--
		}
		if t := r.nodes[n.place]; t != nil && t.pass != n.passes {
			r.nodes[n.place] = nil
			c.told--
			if !slices.ContainsFunc(r.nodes, func(t *tally) bool { return t != nil }) {
				c.drop(k, r)
			}
		}
	}
	n.passes++
	n.heard, n.why = now, ""
}

func (c *cluster) drop(k key, r *row) {
	delete(c.rows, k)
	if r.past != nil {
		c.active--
	}
}

// name is the node's, as it was given, or as it calls itself.
func (n *watched) name() string {
	switch {
	case n.Name != "":
		return n.Name
	case n.info.Node != "":
		return n.info.Node
	}
	return fmt.Sprint("node ", n.place+1)
}

// here returns the nodes that answer, and those that do not. One that was not heard yet is asked, too.
func (c *cluster) here() (here []asked, away []Away) {
	c.mu.Lock()
	defer c.mu.Unlock()
	away = []Away{} // JavaScript would find null
	for _, n := range c.nodes {
		if n.why != "" {
			away = append(away, Away{n.name(), n.why})
		} else {
			here = append(here, asked{n.name(), n.Client})
		}
	}
	return here, away
}
