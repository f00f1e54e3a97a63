package debug

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/explain"
)

// node is a node with a daemon, and how it goes along.
type node struct {
	Name   string `json:"name"`
	State  string `json:"state"`  // what became of the debugging there, in words
	Missed uint64 `json:"missed"` // records that came faster than they were read
	Open   *int   `json:"open"`   // connections at the end; null: not known

	client *adminsocket.Client
	known  bool // it serves the Service
	report explain.Report
	skew   time.Duration
	err    error // of the last thing that it was asked
}

func (n *node) String() string { return firstOf(n.Name, "this host") }

// each asks all nodes at once, and waits for all of them, each for so long.
func each(ctx context.Context, nodes []*node, limit time.Duration, ask func(context.Context, *node) error) {
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			n.err = ask(ctx, n)
		})
	}
	all.Wait()
}

// lookEvery is how often a node is asked whether it has followed.
const lookEvery = 200 * time.Millisecond

// await asks a node until the ports of the Service are as wanted.
func (s *session) await(ctx context.Context, n *node, wanted func([]adminsocket.Service) (bool, error)) error {
	for {
		all, err := n.client.Services(ctx, adminsocket.ServiceQuery{Services: []string{s.name.String()}})
		if err != nil {
			return err
		}
		if done, err := wanted(all); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("it has not followed yet")
		case <-time.After(lookEvery):
		}
	}
}

// inUserspace tells whether all ports are carried in userspace mode that can be; an error says that they will not.
func inUserspace(all []adminsocket.Service) (bool, error) {
	for i := range all {
		p := &all[i]
		for _, problem := range p.Problems {
			if strings.Contains(problem, annotation) {
				return false, errors.New(problem)
			}
		}
		if p.Protocol == "sctp" {
			continue
		}
		byKernel := func(f adminsocket.Frontend) bool { return f.Target == "spread" }
		if p.Mode != "userspace" || slices.ContainsFunc(p.Frontends, byKernel) {
			return false, nil
		}
	}
	return true, nil
}

// asBefore tells whether no port is debugged any more.
func asBefore(all []adminsocket.Service) (bool, error) {
	for i := range all {
		if all[i].ModeFrom == "debug" {
			return false, nil
		}
	}
	return true, nil
}

// serving are the nodes that know the Service.
func (s *session) serving() (some []*node) {
	for _, n := range s.nodes {
		if n.known {
			some = append(some, n)
		}
	}
	return some
}

// follow waits until the nodes carry the Service in userspace mode. An error: none does.
func (s *session) follow(ctx context.Context) error {
	serving, following := s.serving(), 0
	each(ctx, serving, followTime, func(ctx context.Context, n *node) error { return s.await(ctx, n, inUserspace) })
	var errs []error
	for _, n := range serving {
		if n.err == nil {
			following++
			n.State = "debugged"
			continue
		}
		n.State = "not debugged: " + n.err.Error()
		errs = append(errs, fmt.Errorf("%s: %w", n, n.err))
		s.say("%s does not follow: %v", n, n.err)
	}
	if following == 0 && ctx.Err() == nil {
		return errors.Join(errs...)
	}
	s.say("%d of %d nodes carry it in userspace mode. Records follow as connections end.", following, len(serving))
	return nil
}

// tails are the records of all nodes as they come.
type tails struct {
	events chan event
	live   int // streams
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// event is a record, records that are missing, or the end of a stream.
type event struct {
	node   *node
	line   *connlog.Line
	missed uint64
	err    error
}

func (s *session) tail(ctx context.Context) *tails {
	ctx, cancel := context.WithCancel(ctx)
	t := &tails{events: make(chan event, 1024), cancel: cancel}
	put := func(e event) error {
		select {
		case t.events <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, n := range s.serving() {
		t.live++
		t.all.Go(func() {
			err := s.records(ctx, n, func(l *connlog.Line) error { return put(event{node: n, line: l}) },
				func(g adminsocket.Gap) error { return put(event{node: n, missed: g.Missed}) })
			_ = put(event{node: n, err: err}) // nobody listens any more
		})
	}
	return t
}

// records follows the records of a node since the session began: none is missing that came before it was asked.
func (s *session) records(
	ctx context.Context, n *node, do func(*connlog.Line) error, gap func(adminsocket.Gap) error,
) error {
	shown, err := s.shown(s.sum.Began.Add(n.skew))
	if err != nil {
		return err
	}
	return n.client.Records(ctx, adminsocket.RecordQuery{Filter: shown, Last: math.MaxInt32, Follow: true}, do, gap)
}

func (t *tails) stop() {
	t.cancel()
	t.all.Wait()
}

// timeline adds what changed meanwhile.
func (s *session) timeline(ctx context.Context) {
	var mu sync.Mutex
	each(ctx, s.serving(), askTime, func(ctx context.Context, n *node) error {
		query := adminsocket.ChangeQuery{
			Services: []string{s.name.String()}, Since: s.sum.Began.Add(n.skew), Last: math.MaxInt32,
		}
		return n.client.Changes(ctx, query, func(l *changes.Line) error {
			mu.Lock()
			defer mu.Unlock()
			s.sum.addChange(n.Name, l)
			return nil
		}, func(adminsocket.Gap) error { return nil })
	})
}
