package inspect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
)

// changesAmong prints changes among records: each before the records of connections that ended later. Records and new
// changes come from two goroutines.
type changesAmong struct {
	printer *recordPrinter
	asJSON  bool

	mu   sync.Mutex
	past []changes.Line // guarded by mu: those that are not printed yet, in order
}

// read reads the changes so far of the Services that the flags choose. New ones are followed from the time that it
// returns.
func (a *changesAmong) read(
	ctx context.Context, client *adminsocket.Client, q adminsocket.ChangeQuery,
) (time.Time, error) {
	now := time.Now()
	q.Last = everything
	err := client.Changes(ctx, q, func(l *changes.Line) error {
		if l.Time.Before(now) {
			a.past = append(a.past, *l)
		}
		return nil
	}, a.gap)
	return now, err
}

// follow prints new changes until ctx ends.
func (a *changesAmong) follow(ctx context.Context, client *adminsocket.Client, q adminsocket.ChangeQuery) error {
	q.Last, q.Follow = everything, true
	err := client.Changes(ctx, q, func(l *changes.Line) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.print(l)
		return a.printer.flush()
	}, a.gap)
	if ctx.Err() != nil {
		return nil // the records have ended
	}
	return err
}

// record prints a record, behind the changes before its end. With since, those before it are left out: without it,
// those before the first record.
func (a *changesAmong) record(l *connlog.Line, since time.Time, print func(*connlog.Line) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if since.IsZero() && !a.printer.printed {
		for len(a.past) > 0 && a.past[0].Time.Before(l.Time.Time) {
			a.past = a.past[1:]
		}
	}
	a.until(l.End())
	return print(l)
}

// rest prints the changes behind the last record.
func (a *changesAmong) rest(since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.printer.printed || !since.IsZero() {
		a.until(time.Now())
	}
	a.past = nil
}

func (a *changesAmong) until(t time.Time) {
	for len(a.past) > 0 && !a.past[0].Time.After(t) {
		a.print(&a.past[0])
		a.past = a.past[1:]
	}
}

// print is called with mu held.
func (a *changesAmong) print(l *changes.Line) {
	a.printer.printed = true
	_, _ = a.printer.out.WriteString(changeText(l, a.asJSON)) // flush returns its error
}

func (a *changesAmong) gap(g adminsocket.Gap) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := fmt.Fprintf(a.printer.errOut, "%d changes are missing here%s: they came faster than they were read\n",
		g.Missed, onNode(g.PortaldNode))
	return err
}

// fetchAmong is fetch with changes among the records.
func (t *tail) fetchAmong(ctx context.Context, dial *Dial, p *recordPrinter, asJSON bool) error {
	client := dial.Client()
	defer client.Close()
	a := &changesAmong{printer: p, asJSON: asJSON}
	q := adminsocket.ChangeQuery{Services: t.services, Namespaces: t.namespaces, Since: t.since}
	now, err := a.read(ctx, client, q)
	if err != nil {
		return err
	}
	print, seen := t.limited(p.print), map[string]bool{}
	one := func(l *connlog.Line) error {
		if key := fmt.Sprint(l.PortaldNode, l.ID, l.Time, l.Event); t.follow && l.Time.Before(now) {
			if seen[key] {
				return nil
			}
			seen[key] = true
		}
		return a.record(l, t.since, print)
	}
	records := adminsocket.RecordQuery{Filter: t.filter, Last: t.last, History: t.history}
	if !t.follow || t.last > 0 {
		err = client.ReadRecords(ctx, records, adminsocket.RecordReader{Record: one, Gap: p.gap,
			Reach: func(r adminsocket.Reach) error { return p.reach(&r) }})
	}
	if err == nil {
		a.rest(t.since)
	}
	if t.follow && err == nil {
		records.Follow, records.History, q.Since = true, false, now
		err = errors.Join(p.flush(), a.followBoth(ctx, client, q, func(ctx context.Context) error {
			return client.Records(ctx, records, one, p.gap) // what was printed is seen again
		}))
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return errors.Join(p.flush(), err)
}

// followBoth prints new changes until records have ended.
func (a *changesAmong) followBoth(
	ctx context.Context, client *adminsocket.Client, q adminsocket.ChangeQuery, records func(context.Context) error,
) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.follow(ctx, client, q) }()
	err := records(ctx)
	stop()
	return errors.Join(err, <-ended)
}
