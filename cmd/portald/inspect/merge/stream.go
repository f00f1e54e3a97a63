package merge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

const (
	// laneLines is how many lines of a node wait to be merged: enough for a node to send while others are read.
	laneLines = 256
	// mostLast is the largest number of last lines that are held back until all nodes have said theirs.
	mostLast = 100_000
)

// line is one of a stream: a record, a change or a gap.
type line struct {
	at   time.Time // of a gap: that of the line before
	node int
	text []byte
	came time.Time // with follow: when it was read
	nth  uint64    // with follow: of all that were read
}

// before tells which of two lines comes first. Those of one time, of a gap or of a coarse clock, keep their order.
func (l line) before(o line) bool {
	if !l.at.Equal(o.at) {
		return l.at.Before(o.at)
	}
	return l.nth < o.nth
}

// stream writes the lines of all nodes in the order of time: those of the past, and with follow those to come.
func (h *handler) stream(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	last, err := strconv.Atoi(r.URL.Query().Get("last"))
	if err != nil {
		last = 0 // nodes refuse what is no number
	}
	out := &lines{out: bufio.NewWriterSize(w, 64<<10), to: http.NewResponseController(w)}
	if follow, err := strconv.ParseBool(r.URL.Query().Get("follow")); err == nil && follow {
		return h.follow(ctx, r, out, last)
	}
	return h.past(ctx, r, out, last)
}

// past writes the last lines there are.
func (h *handler) past(ctx context.Context, r *http.Request, out *lines, last int) error {
	lanes := make([]chan line, len(h.nodes))
	for i := range lanes {
		lanes[i] = make(chan line, laneLines)
	}
	failed := make(chan error, 1)
	go func() {
		failed <- h.each(ctx, func(ctx context.Context, at int, n Node, dog watchdog) error {
			defer close(lanes[at])
			return readLines(ctx, r.Method, r.URL.Path, r.URL.Query(), at, n, dog.alive, func(l line) error {
				dog.alive()
				err := send(ctx, lanes[at], l)
				dog.alive() // it may have waited for other nodes
				return err
			})
		})
	}()
	if err := mergePast(ctx, out, lanes, last); err != nil {
		return err
	}
	if err := <-failed; err != nil {
		return err
	}
	return out.flush()
}

func send(ctx context.Context, to chan<- line, l line) error {
	select {
	case to <- l:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readLines calls do for each line of a node's stream, and open when the node answers.
func readLines(
	ctx context.Context, method, path string, query url.Values, at int, n Node, open func(), do func(line) error,
) error {
	var latest time.Time
	return n.Client.EachLine(ctx, method, path, query, open, func(text []byte) error {
		if t, ok := timeOf(text); ok {
			latest = t
		}
		return do(line{at: latest, node: at, text: named(nil, text, n.Name)})
	})
}

// mergePast writes the last so many lines of lanes that end.
func mergePast(ctx context.Context, out *lines, lanes []chan line, last int) error {
	kept := &ring{most: last}
	heads := make([]*line, len(lanes))
	for {
		first, err := earliest(ctx, heads, lanes)
		if err != nil {
			return err
		}
		if first < 0 {
			return kept.each(out.add)
		}
		if last <= mostLast && !adminsocket.IsOfNode(heads[first].text) {
			kept.add(*heads[first])
		} else if err := out.add(*heads[first]); err != nil {
			return err
		}
		heads[first] = nil
	}
}

// earliest fills in the heads of lanes, and returns which of them is the earliest, -1: all have ended.
func earliest(ctx context.Context, heads []*line, lanes []chan line) (first int, err error) {
	first = -1
	for i, lane := range lanes {
		if heads[i] == nil {
			select {
			case l, ok := <-lane:
				if !ok {
					continue
				}
				heads[i] = &l
			case <-ctx.Done():
				return first, ctx.Err()
			}
		}
		if first < 0 || heads[i].before(*heads[first]) {
			first = i
		}
	}
	return first, nil
}

// ring keeps the last so many lines.
type ring struct {
	most  int
	lines []line
	next  int
}

func (k *ring) add(l line) {
	switch {
	case k.most <= 0:
	case len(k.lines) < k.most:
		k.lines = append(k.lines, l)
	default:
		k.lines[k.next] = l
		k.next = (k.next + 1) % k.most
	}
}

func (k *ring) each(do func(line) error) error {
	for i := range k.lines {
		if err := do(k.lines[(k.next+i)%len(k.lines)]); err != nil {
			return err
		}
	}
	return nil
}

// lines writes lines.
type lines struct {
	out *bufio.Writer
	to  *http.ResponseController
}

func (o *lines) add(l line) error {
	o.out.Write(l.text) // the next write fails too
	return o.out.WriteByte('\n')
}

func (o *lines) flush() error { return errors.Join(o.out.Flush(), o.to.Flush()) }

// timeOf is when a record ended, or something changed. Text in JSON has no quote that is not escaped, so that no name
// looks like a key.
func timeOf(text []byte) (time.Time, bool) {
	begin, ok := value(text, `"time":"`, '"')
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, string(begin))
	if err != nil {
		return time.Time{}, false
	}
	if ms, ok := value(text, `"duration_ms":`, ','); ok {
		if n, err := strconv.ParseFloat(string(ms), 64); err == nil && n < math.MaxInt64/float64(time.Millisecond) {
			t = t.Add(time.Duration(n * float64(time.Millisecond)))
		}
	}
	return t, true
}

// value is what follows a key, up to a character.
func value(text []byte, key string, end byte) ([]byte, bool) {
	_, rest, ok := bytes.Cut(text, []byte(key))
	if !ok {
		return nil, false
	}
	to := bytes.IndexByte(rest, end)
	return rest[:max(to, 0)], to >= 0
}
