package adminsocket

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
)

// ChangeQuery selects changes of the time line. A change has to match each field that is set.
type ChangeQuery struct {
	Services   []string  // as of ConnectionQuery; changes of the node itself match none
	Namespaces []string  // of the Service
	Since      time.Time // zero: any time
	Last       int       // the latest so many
	Follow     bool      // then those to come, until the client leaves or the daemon ends
}

// Values are the query of a request.
func (q *ChangeQuery) Values() url.Values {
	v := url.Values{"service": q.Services, "namespace": q.Namespaces, "last": {strconv.Itoa(q.Last)}}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	if q.Follow {
		v.Set("follow", "1")
	}
	return v
}

// parseChanges is the inverse of Values.
func parseChanges(v url.Values) (*ChangeQuery, error) {
	if err := onlyKeys(v, "service", "namespace", "since", "last", "follow"); err != nil {
		return nil, err
	}
	p := parser{v, nil}
	q := &ChangeQuery{Services: v["service"], Namespaces: v["namespace"]}
	q.Since = one(&p, "since", "a time of RFC 3339", func(text string) (time.Time, error) {
		return time.Parse(time.RFC3339Nano, text)
	})
	q.Last = max(0, one(&p, "last", "a number", strconv.Atoi))
	q.Follow = one(&p, "follow", "true or false", strconv.ParseBool)
	return q, p.err
}

// match tells whether a change is wanted.
func (q *ChangeQuery) match(c *changes.Change) bool {
	label := ""
	if c.Service.Name != "" {
		label = c.Service.Label()
	}
	return !c.Time.Before(q.Since) &&
		anyOf(q.Services, func(s string) bool { return label != "" && connlog.IsService(s, label) }) &&
		anyOf(q.Namespaces, func(n string) bool { return label != "" && within(label, n) })
}

// changes streams changes, a JSON object a line, the oldest first, with a Gap where some are missing.
func (h *Handler) changes(w http.ResponseWriter, r *http.Request) error {
	query, err := parseChanges(r.URL.Query())
	if err != nil {
		return err
	}
	to, leave, err := h.lines(w, r, query.Follow)
	if err != nil {
		return err
	}
	defer leave()
	out := bufio.NewWriterSize(to, chunk)
	past, position := h.daemon.Changes.LastAt(query.Last, query.match)
	for _, c := range past {
		if err := writeJSON(out, c.Line()); err != nil {
			return err
		}
	}
	if query.Follow {
		if err := h.followChanges(r.Context(), to, out, position, query.match); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return to.flush()
}

// followChanges writes changes from a position on until ctx ends, which is the end of the client or of the daemon.
func (h *Handler) followChanges(
	ctx context.Context, to *stream, out *bufio.Writer, position uint64, match func(*changes.Change) bool,
) error {
	if err := to.connection.SetReadDeadline(time.Time{}); err != nil { // it would end the stream
		return err
	}
	for {
		all, missed, next, more := h.daemon.Changes.After(position)
		if position = next; missed > 0 {
			if err := writeJSON(out, Gap{Missed: missed}); err != nil {
				return err
			}
		}
		for i := range all {
			if !match(&all[i]) {
				continue
			}
			if err := writeJSON(out, all[i].Line()); err != nil {
				return err
			}
		}
		if err := errors.Join(out.Flush(), to.flush()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-more:
		}
	}
}

// Changes calls do for each change, and gap for those that are missing because the caller was too slow, until one of
// them fails, which is the error then. With Follow the end of the daemon is ErrNotReachable.
func (c *Client) Changes(
	ctx context.Context, q ChangeQuery, do func(*changes.Line) error, gap func(Gap) error,
) error {
	response, err := c.open(ctx, http.MethodGet, "/v1/changes?"+q.Values().Encode(), nil)
	if err != nil {
		return err
	}
	defer response.Close()
	for decoder := json.NewDecoder(response); ; {
		var one struct {
			changes.Line
			Missed uint64 `json:"missed"`
		}
		err := decoder.Decode(&one)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF) && !q.Follow:
			return nil
		case err != nil:
			return fmt.Errorf("%w any more: it ended, or closed this stream", ErrNotReachable)
		case one.Missed > 0:
			err = gap(Gap{one.Missed, one.PortaldNode})
		default:
			err = do(&one.Line)
		}
		if err != nil {
			return err
		}
	}
}
