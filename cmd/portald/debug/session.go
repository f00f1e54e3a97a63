package debug

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/cmd/portald/inspect/cluster"
	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/explain"
)

// annotation is the one that debugs a Service.
const annotation = "portald.io/" + service.DebugUntil

// annotator is cluster.Services.
type annotator interface {
	Annotation(ctx context.Context, namespace, name, key string) (value, version string, err error)
	Annotate(ctx context.Context, namespace, name, version, key, value string) error
}

// session is one run of the command.
type session struct {
	options
	name        service.Name
	nodes       []*node
	services    annotator
	in          io.Reader
	out, errOut io.Writer
	interactive bool // in is a terminal
	page        *os.File

	awaited connlog.Filter // the record that ends it

	until time.Time // this session's
	own   string    // value of the annotation that this session has set; empty: none
	other string    // value that was there before, of another session
	sum   *Summary

	mu sync.Mutex // of errOut and of what is noted
}

// Times that are waited for.
const (
	askTime    = 10 * time.Second // an answer of a node
	followTime = 20 * time.Second // a change of the Service, until a node carries it otherwise
	endTime    = 30 * time.Second // all of the end
)

// run debugs the Service, from the question to the summary.
func (s *session) run(ctx context.Context) error {
	meaning, err := s.foretell(ctx)
	if err != nil {
		return err
	}
	if ok, err := s.confirm(meaning); !ok {
		return err
	}
	s.sum = newSummary(s.name, time.Now())
	s.until = s.sum.Began.Add(s.lasts)
	tails := s.tail(context.WithoutCancel(ctx))
	defer tails.stop()
	if err := s.begin(ctx); err != nil {
		return errors.Join(err, s.takeBack(ctx))
	}
	timed, cancel := context.WithDeadline(ctx, s.until)
	defer cancel()
	if err := s.follow(timed); err != nil {
		return errors.Join(err, s.takeBack(ctx))
	}
	s.sum.EndedBy = s.watch(ctx, timed, tails)
	s.say("It ends: %s.", s.sum.EndedBy)
	err = s.end(ctx, tails)
	return errors.Join(err, s.print())
}

// say tells what happens; a summary as JSON is not disturbed.
func (s *session) say(format string, values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.errOut, printable.Text(fmt.Sprintf(format, values...)))
}

// foretell prints what changes, and returns what endpoints or clients have to be made for.
func (s *session) foretell(ctx context.Context) (meaning []string, err error) {
	var reports []explain.Report
	each(ctx, s.nodes, askTime, func(ctx context.Context, n *node) error {
		asked := time.Now()
		r, err := n.client.Flip(ctx, s.name.String(), service.ModeUserspace.String())
		n.report, n.skew = r, skew(asked, r.Time, time.Now())
		return err
	})
	for _, n := range s.nodes {
		switch {
		case n.err != nil:
			n.State = "did not answer"
			s.say("%s does not answer, and is left out of what follows: %v", n, n.err)
		case !n.report.Known():
			n.State = "does not know the Service"
			s.say("%s does not know the Service.", n)
		default:
			n.known = true
			n.Name = firstOf(n.Name, n.report.Node)
			reports = append(reports, n.report)
		}
		if n.skew.Abs() > time.Second {
			s.say("The clock of %s differs by %s: it ends the debugging by its own.", n, n.skew.Round(time.Millisecond))
		}
	}
	if len(reports) == 0 {
		return nil, inspect.Nothing("debug: no node knows Service %s", s.name)
	}
	slices.SortStableFunc(reports, func(a, b explain.Report) int { return worse(b) - worse(a) })
	for _, r := range reports {
		for _, m := range r.Meaning {
			if !slices.Contains(meaning, m) {
				meaning = append(meaning, m)
			}
		}
	}
	_, err = s.errOut.Write(append(inspect.Reports(s.errOut, reports, s.name.String()+" as userspace"), '\n'))
	return meaning, err
}

func worse(r explain.Report) int {
	return slices.Index([]explain.Status{explain.Fact, explain.Good, explain.Doubt, explain.Wrong}, r.Verdict.Status)
}

// skew is how far a clock is ahead that said its time between two moments; 0: it may be the same.
func skew(asked, said, answered time.Time) time.Duration {
	switch {
	case said.IsZero():
		return 0
	case said.Before(asked):
		return said.Sub(asked)
	case said.After(answered):
		return said.Sub(answered)
	}
	return 0
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// confirm asks whether to go on.
func (s *session) confirm(meaning []string) (bool, error) {
	switch {
	case s.yes:
		return true, nil
	case len(meaning) > 0:
		return false, inspect.Usage("debug: in userspace mode %s; if endpoints and clients are made for that, --yes goes on",
			strings.Join(meaning, ", and "))
	case !s.interactive:
		return false, inspect.Usage("debug: there is no terminal to ask at; --yes goes on")
	}
	fmt.Fprintf(s.errOut, "Carry %s in userspace mode for %s? [y/N] ", s.name, s.lasts)
	answer, err := bufio.NewReader(s.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// mostTries is how often an annotation is set again that others change at the same time.
const mostTries = 20

// begin sets the annotation, unless another session lasts longer.
func (s *session) begin(ctx context.Context) error {
	for range mostTries {
		value, version, err := s.services.Annotation(ctx, s.name.Namespace, s.name.Name, annotation)
		if err != nil {
			return err
		}
		other := deadline(value)
		if !other.Before(s.until) {
			s.other = value
			s.note("Another session debugs the Service until %s: that time holds, and stays.", clock(other))
			return nil
		}
		own := s.until.UTC().Format(time.RFC3339Nano)
		err = s.services.Annotate(ctx, s.name.Namespace, s.name.Name, version, annotation, own)
		if errors.Is(err, cluster.ErrChanged) {
			continue
		}
		if err != nil {
			return err
		}
		s.own = own
		if other.After(time.Now()) {
			s.other = value
			s.note("Another session debugs the Service until %s: the later time, %s, holds.", clock(other), clock(s.until))
		}
		s.say("%s is in userspace mode until %s at the latest; Ctrl-C ends it.", s.name, clock(s.until))
		return nil
	}
	return fmt.Errorf("annotate Service %s: %w, %d times", s.name, cluster.ErrChanged, mostTries)
}

// deadline is the time that an annotation has; zero: none.
func deadline(value string) time.Time {
	t, err := time.Parse(time.RFC3339, strings.TrimSpace(value))
	if err != nil {
		return time.Time{}
	}
	return t
}

// clock is a time of today, or not much later, for people.
func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// note says something that the summary has too.
func (s *session) note(format string, values ...any) {
	s.say(format, values...)
	s.remember(format, values...)
}

// remember notes something for the summary alone.
func (s *session) remember(format string, values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.Notes = append(s.sum.Notes, fmt.Sprintf(format, values...))
}

// takeBack sets the annotation to what it was before, if it is this session's still.
func (s *session) takeBack(ctx context.Context) error {
	if s.own == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	for range mostTries {
		value, version, err := s.services.Annotation(ctx, s.name.Namespace, s.name.Name, annotation)
		switch {
		case errors.Is(err, cluster.ErrGone):
			s.note("The Service is gone.")
			return nil
		case err != nil:
			return s.left(err)
		case value != s.own:
			s.own = ""
			s.note("The annotation %s is not this session's any more (%q), and stays.", annotation, value)
			return nil
		}
		before := s.other
		if !deadline(before).After(time.Now()) {
			before = ""
		}
		err = s.services.Annotate(ctx, s.name.Namespace, s.name.Name, version, annotation, before)
		if errors.Is(err, cluster.ErrChanged) {
			continue
		}
		if err != nil {
			return s.left(err)
		}
		if before != "" {
			s.note("The other session goes on until %s.", clock(deadline(before)))
		}
		return nil
	}
	return s.left(cluster.ErrChanged)
}

// left is the error of an annotation that could not be taken back.
func (s *session) left(err error) error {
	s.remember("The annotation could not be taken back: each node ends it by itself at %s.", clock(s.until))
	return fmt.Errorf("the annotation %s stays, and each node ends it by itself at %s: %w", annotation, clock(s.until),
		err)
}
