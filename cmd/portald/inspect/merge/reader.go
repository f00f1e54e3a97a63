package merge

import (
	"context"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/proxy/connlog"
)

// readers read a stream of all nodes, each by a reader.
type readers struct {
	h        *handler
	r        *http.Request
	incoming chan<- line
	failed   chan error   // why the first nodes have not answered when they were asked first
	open     atomic.Int32 // of these, have answered or failed
}

// read reads all nodes, those that join later too, until ctx ends.
func (s *readers) read(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	relist := time.NewTicker(s.h.Relist)
	defer relist.Stop()
	for nodes, known := s.h.nodes, 0; ; nodes = s.h.known.get() {
		for ; known < len(nodes); known++ {
			one := &reader{readers: s, node: nodes[known], at: known, first: known < len(s.h.nodes)}
			all.Go(func() { one.keepReading(ctx) })
		}
		select {
		case <-ctx.Done():
			return
		case <-relist.C:
		}
	}
}

// haveAnswered tells whether each of the first nodes has answered, or failed.
func (s *readers) haveAnswered() bool { return int(s.open.Load()) == len(s.h.nodes) }

// The pause after a stream has ended doubles from the first to the last: a pod is replaced in seconds, and a node that
// is off costs the API server little.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
)

// reader reads the stream of one node, again whenever it has ended.
type reader struct {
	*readers
	node  Node
	at    int
	first bool // it is one of the first nodes, and has neither answered nor failed

	began  time.Time // when it answered first; zero: it has not
	latest time.Time // of the node's clock, when the last line was; at first when it began
	read   latestLines
	lost   bool // it has answered, and does not any more
}

func (o *reader) keepReading(ctx context.Context) {
	pause := backoff.Pause{First: firstPause, Last: lastPause}
	for told := false; ctx.Err() == nil; {
		err := o.h.one(ctx, o.at, o.node, func(ctx context.Context, _ int, _ Node, dog watchdog) error {
			return o.readOnce(ctx, func() {
				dog.off() // it may be silent: nothing is to end
				pause.Reset()
				told = false
			})
		})
		if ctx.Err() != nil {
			return // the caller has left
		}
		if err = lost(err); !told {
			o.h.Failed(o.node.Name, err)
			told = true
		}
		if o.first {
			o.failed <- fmt.Errorf("%s: %w", o.node.Name, err)
		}
		o.answered()
		o.lost = !o.began.IsZero()
		if backoff.Sleep(ctx, pause.Next()) != nil {
			return
		}
	}
}

// answered is called when nobody waits for the node's past any more: it has begun to come, or will not.
func (o *reader) answered() {
	if o.first {
		o.first = false
		o.open.Add(1)
	}
}

// readOnce reads until the stream ends, and calls open when the node answers.
func (o *reader) readOnce(ctx context.Context, open func()) error {
	query, resumed := o.r.URL.Query(), time.Time{}
	var before map[uint64]struct{}
	if o.lost {
		o.resume(query)
		before, resumed = o.read.set(), o.latest
	}
	return readLines(ctx, o.r.Method, o.r.URL.Path, query, o.at, o.node, func() {
		open()
		o.answered()
		if o.began.IsZero() {
			o.began = time.Now()
			o.latest = o.began
		}
		if o.lost {
			o.lost = false
			o.h.Resumed(o.resumption(ctx))
		}
	}, func(l line) error {
		if _, timed := timeOf(l.text); timed { // else it is a gap
			key := maphash.Bytes(lineSeed, l.text)
			if _, again := before[key]; again && !l.at.After(resumed) {
				return nil
			}
			o.read.add(key)
		}
		if l.at.After(o.latest) {
			o.latest = l.at
		}
		l.came = time.Now()
		return send(ctx, o.incoming, l)
	})
}

// mostLate is how much later than others a record may be written that has ended before them.
const mostLate = 2 * time.Minute

// resume has a stream begin again where it was lost. Some lines come a second time.
func (o *reader) resume(query url.Values) {
	since := o.latest.Add(-mostLate)
	if since.Before(o.began) {
		since = o.began
	}
	query.Set("last", strconv.Itoa(mostAgain))
	query.Set("since", since.UTC().Format(time.RFC3339Nano))
	query.Del("history")
}

// resumption tells which records may be missing: those of a daemon that has ended, and those that the node's memory
// does not have any more.
func (o *reader) resumption(ctx context.Context) Resumption {
	is := Resumption{Node: o.node.Name}
	if o.r.URL.Path != "/v1/records" {
		return is
	}
	ctx, cancel := context.WithTimeout(ctx, o.h.Wait)
	defer cancel()
	info, err := o.node.Client.Info(ctx)
	if err != nil {
		info.RecordsSince = time.Now()
	}
	if info.RecordsSince.After(o.latest) {
		is.From, is.To = o.latest, info.RecordsSince
	}
	return is
}

// mostAgain is how many lines of a node may come again: as many as its daemon keeps by default.
const mostAgain = connlog.DefaultStream

var lineSeed = maphash.MakeSeed()

// latestLines are hashes of the last lines of a stream. The zero value has none.
type latestLines struct {
	all  []uint64 // a ring
	next int
}

func (s *latestLines) add(line uint64) {
	if len(s.all) < mostAgain {
		s.all = append(s.all, line)
		return
	}
	s.all[s.next] = line
	s.next = (s.next + 1) % mostAgain
}

func (s *latestLines) set() map[uint64]struct{} {
	all := make(map[uint64]struct{}, len(s.all))
	for _, line := range s.all {
		all[line] = struct{}{}
	}
	return all
}
