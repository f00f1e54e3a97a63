package chaos

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// Kinds of failures.
const (
	connection = "connection"
	stream     = "stream"
	datagram   = "datagram"
)

// failure is an error that a client saw.
type failure struct {
	kind         string
	service      string // empty: of the address that moves
	from, to     string
	client       netip.AddrPort
	began, ended time.Time
	overtaken    time.Time // of a datagram: when one that was sent later was answered; it was under way until then
	err          error
}

func (f failure) String() string {
	return fmt.Sprintf("%s from %s %s to %s %s, %s to %s: %v", f.kind, f.from, f.client, f.service, f.to,
		clock(f.began), clock(f.ended), f.err)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func (f failure) isReset() bool {
	return errors.Is(f.err, syscall.ECONNRESET) || errors.Is(f.err, syscall.EPIPE)
}

// isCorrupt tells failures that nothing excuses: other bytes, or a clean end without some. Another Service's name is no
// such thing while the address moves.
func (f failure) isCorrupt() bool {
	return errors.Is(f.err, errMissing) || errors.Is(f.err, errWrong) && f.service != ""
}

// failure is one that begins now, if it comes to that.
func (c client) failure(kind string) failure {
	return failure{kind: kind, service: c.service, from: c.from.Name, to: c.to, began: time.Now()}
}

func (w *world) fails(f failure) {
	f.ended = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, f)
}

func (w *world) note(e *event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// afterwards is for how long an event is felt once it is over; where entries of conntrack are to be deleted, until that
// is done. While there are many changes a scan for them begins at most a second after the last one, and then takes as
// long as a busy machine takes for it.
const (
	afterwards     = 100 * time.Millisecond
	lateScan       = time.Second // as in proxy/dataplane
	scanTakes      = time.Second
	untilForgotten = lateScan + scanTakes
)

// excuse is the event that a failure may come from, if any.
func (w *world) excuse(f failure) string {
	ended := f.ended
	if f.kind == datagram {
		ended = w.answerableUntil(f)
	}
	for _, e := range w.events {
		if e.excuses != nil && ended.After(e.began) && f.began.Before(w.feltUntil(e, f.kind)) && e.excuses(f) {
			return e.what
		}
	}
	return ""
}

// feltUntil is how long an event is felt. Connections that a predecessor carried for a Service that it did not know to
// have changed end with it. Work that portald still has to do as it is stopped, it does once it goes on.
func (w *world) feltUntil(e *event, kind string) time.Time {
	over, more := e.over, afterwards
	if kind == datagram {
		for _, t := range w.events {
			if t.isTakeOver() && t.began.Before(over) && t.over.After(over) {
				over = t.over
			}
		}
	}
	if e.what == wiped || e.what == forgotten || kind == datagram {
		more = untilForgotten
	}
	until := over.Add(more)
	for _, t := range w.events {
		if t.what == stopped && t.began.Before(until) && t.over.Add(more).After(until) {
			until = t.over.Add(more)
		}
	}
	return until
}

// answerableUntil is how long the answer to a datagram may have been under way: until one that was sent later was
// answered, which on a busy machine takes long; or longer where a socket stands still meanwhile.
func (w *world) answerableUntil(f failure) time.Time {
	until := f.overtaken
	for _, e := range w.events {
		late := e.over.Add(sayEvery)
		if (e.what == stopped || e.isTakeOver()) && e.began.Before(until) && late.After(until) {
			until = late
		}
	}
	return until
}

func (e *event) isTakeOver() bool { return e.what == succeeded || e.what == raced }

// inUserspace tells whether portald may have carried a connection.
func (w *world) inUserspace(f failure) bool { return !w.mode.Kernel || f.service == flips }

// takesOver tells whether one portald takes over from another at that time: what each knows of Services differs then.
func (w *world) takesOver(at time.Time) bool {
	for _, e := range w.events {
		if e.isTakeOver() && at.After(e.began) && at.Before(e.over) {
			return true
		}
	}
	return false
}

// leadsAstray tells whether the kernel may have forgotten where a client that came at that time, or waited then to be
// accepted, had dialled; or may have led it to a proxy port by a rule of a portald that nothing was left of.
func (w *world) leadsAstray(at time.Time) bool {
	for _, e := range w.events {
		if (e.what == forgotten || e.what == abandoned) && at.After(e.began) && at.Before(w.feltUntil(e, connection)) {
			return true
		}
	}
	return false
}

// eventsBetween are those that were felt between these times, a line each.
func (w *world) eventsBetween(from, to time.Time) string {
	var b strings.Builder
	for _, e := range w.events {
		if e.began.Before(to) && e.over.After(from) {
			fmt.Fprintf(&b, "\t%s to %s: %s\n", clock(e.began), clock(e.over), e.what)
		}
	}
	return b.String()
}

// recordsOf are the records of a failure's client.
func (w *world) recordsOf(f failure) string {
	var b strings.Builder
	for _, r := range w.daemon.Records() {
		if r.Client == f.client.String() {
			fmt.Fprintf(&b, "\trecorded at %s: %s\n", clock(r.Time), r)
		}
	}
	return b.String()
}
