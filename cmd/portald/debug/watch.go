package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
)

// watch prints records until the session is to end, and returns why it does. Timed ends with its time, ctx by Ctrl-C.
func (s *session) watch(ctx, timed context.Context, t *tails) string {
	for {
		select {
		case e := <-t.events:
			if why := s.take(t, e); why != "" {
				return why
			}
		case <-timed.Done():
			if ctx.Err() != nil {
				return "by Ctrl-C"
			}
			return fmt.Sprintf("after %s", s.lasts)
		}
	}
}

// take prints and counts one event; why: it ends the session.
func (s *session) take(t *tails, e event) (why string) {
	switch {
	case e.line != nil:
		e.line.PortaldNode = firstOf(e.line.PortaldNode, e.node.Name)
		s.sum.add(e.line)
		if s.output == outputText {
			_, _ = io.WriteString(s.out, inspect.Compact(e.line, inspect.Colored(s.out)))
		}
		if s.isAwaited(e.line) {
			return fmt.Sprintf("a connection had the outcome %s", e.line.Outcome)
		}
	case e.missed > 0:
		e.node.Missed += e.missed
		s.say("%d records of %s are missing: they came faster than they were read.", e.missed, e.node)
	default:
		t.live--
		s.note("From %s is no record any more: %v", e.node, e.err)
		if t.live == 0 {
			return "the connection to all nodes was lost"
		}
	}
	return ""
}

// end takes the annotation back, waits until the nodes have followed, and takes the records that come meanwhile.
func (s *session) end(ctx context.Context, t *tails) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.takeBack(ctx) }()
	err := s.takeUntil(t, ended)
	followed := make(chan error, 1)
	go func() {
		s.verify(ctx)
		followed <- nil
	}()
	_ = s.takeUntil(t, followed) // it is nil
	t.stop()
	for len(t.events) > 0 {
		if e := <-t.events; e.line != nil {
			s.take(t, e)
		}
	}
	s.timeline(ctx)
	return err
}

// takeUntil takes events until something is done.
func (s *session) takeUntil(t *tails, done <-chan error) error {
	for {
		select {
		case e := <-t.events:
			s.take(t, e)
		case err := <-done:
			return err
		}
	}
}

// verify waits until the nodes carry the Service as before, and counts what is open yet.
func (s *session) verify(ctx context.Context) {
	if s.own == "" || deadline(s.other).After(time.Now()) {
		return // the other session's
	}
	each(ctx, s.serving(), followTime, func(ctx context.Context, n *node) error {
		return s.await(ctx, n, func(all []adminsocket.Service) (bool, error) {
			n.Open = open(all)
			return asBefore(all)
		})
	})
	for _, n := range s.serving() {
		switch {
		case n.err != nil:
			n.State += fmt.Sprintf(", and at the end: %v; it ends by itself at %s", n.err, clock(s.until))
			s.say("%s: %s", n, n.State)
		case n.State == "debugged":
			n.State = "debugged, and as before now"
		}
	}
}

// open is how many connections are open of all ports; nil: it is not known.
func open(all []adminsocket.Service) *int {
	n := 0
	for i := range all {
		if all[i].Open == nil {
			return nil
		}
		n += *all[i].Open
	}
	return &n
}

// print prints the summary, and writes its page.
func (s *session) print() error {
	s.sum.finish(s.nodes)
	var errs []error
	if s.output == outputJSON {
		text, err := json.MarshalIndent(s.sum, "", "  ")
		if err == nil {
			_, err = fmt.Fprintf(s.out, "%s\n", printable.JSON(text))
		}
		errs = append(errs, err)
	} else {
		_, err := io.WriteString(s.out, "\n"+s.sum.document().text())
		errs = append(errs, err)
	}
	if s.page != nil {
		err := s.page.Truncate(0)
		if err == nil {
			_, err = io.WriteString(s.page, s.sum.document().html())
		}
		if errs = append(errs, err); err == nil {
			s.say("The summary is in %s.", s.html)
		}
	}
	return errors.Join(errs...)
}
