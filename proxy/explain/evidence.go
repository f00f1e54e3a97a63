package explain

import (
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// recentTime is how long ago a connection may have ended that decides a verdict.
const recentTime = 10 * time.Minute

// evidence is what the last connections of a service port say of each of its endpoints.
type evidence struct {
	tallies  []*tally // in the order of addresses
	records  int      // that were counted
	failed   int      // of those
	outcomes map[record.Outcome]int
	last     *record.Record
	span     time.Duration // how long ago the first of them ended
	partial  bool          // those that went well are not recorded
	replied  bool          // some endpoint sent something
	past     history
}

// tally is what is counted of one endpoint.
type tally struct {
	at      netip.AddrPort
	since   time.Time // what was before does not count
	began   time.Time // the end of the first that failed
	start   time.Time // the start of the connection whose dial was the first to fail
	dials   int       // that were not overtaken
	refused int       // of these
	silent  int       // of these: nothing answered in time
	noHost  int       // of these: no host has that address, or no route leads there
	barred  int       // of these: this host did not let them out
	failed  int       // of these, in all
	late    int       // others, overtaken by a later dial
	why     string

	served int // connections
	resets int // of these: reset by the endpoint
	cut    int // of these: closed in mid-exchange by an endpoint that crashed
	lost   int // of these: its host answered no more
	mute   int // of these: it sent nothing, and the client had sent something
	first  []time.Duration

	wellSince int // connections in a row that went well, since something failed
}

// gather counts the records that are recent, and ended after the Service or the endpoint was as it is. ByKernel is
// which connections of the kernel have one.
func gather(records []*record.Record, past history, now time.Time, byKernel service.Records) *evidence {
	e := &evidence{outcomes: map[record.Outcome]int{}, past: past}
	after := past.changed()
	for _, r := range records {
		ended := r.Start.Add(r.Duration)
		if ended.Before(after) || now.Sub(ended) > recentTime {
			continue
		}
		if e.records++; e.records == 1 {
			e.span = now.Sub(ended)
		}
		e.last = r
		e.outcomes[r.Outcome]++
		if !r.Outcome.Well() {
			e.failed++
		}
		e.replied = e.replied || r.BytesFromEndpoint > 0
		e.partial = e.partial || r.CarriedBy == record.Kernel && byKernel == service.RecordsFailures
		for i := range r.Attempts {
			e.dialled(&r.Attempts[i], r.Start, ended)
		}
		if r.Proxy().IsValid() || r.CarriedBy == record.Kernel && r.Endpoint.Addr.IsValid() {
			e.of(r.Endpoint.Addr).ended(r, ended)
		}
	}
	slices.SortFunc(e.tallies, func(a, b *tally) int { return a.at.Compare(b.at) })
	return e
}

// of returns the tally of an endpoint.
func (e *evidence) of(at netip.AddrPort) *tally {
	for _, t := range e.tallies {
		if t.at == at {
			return t
		}
	}
	t := &tally{at: at, since: e.past.serving(at)}
	e.tallies = append(e.tallies, t)
	return t
}

// dialled counts a dial, or several that failed alike.
func (e *evidence) dialled(a *record.Attempt, start, ended time.Time) {
	t, n := e.of(a.Endpoint), max(1, int(a.Times))
	switch {
	case ended.Before(t.since):
		return
	case a.Err == record.Overtaken && a.Hedge: // the first dial was answered before it
		return
	case a.Err == record.Overtaken:
		t.late += n
		return
	}
	if t.dials += n; a.Err == "" {
		return
	}
	if a.Reset() { // as the connection that it was
		t.served, t.resets = t.served+n, t.resets+n
		t.bad(ended)
		return
	}
	if t.failed == 0 {
		t.start = start
	}
	t.failed += n
	t.why = a.Err
	t.bad(ended)
	switch {
	case a.Refused():
		t.refused += n
	case a.Unreachable():
		t.noHost += n
	case a.Forbidden():
		t.barred += n
	case a.Err == record.TimedOut:
		t.silent += n
	}
}

// ended counts a connection that the endpoint had.
func (t *tally) ended(r *record.Record, ended time.Time) {
	if ended.Before(t.since) {
		return
	}
	t.served++
	well := false
	switch r.Outcome {
	case record.OutcomeEndpointReset, record.OutcomeReset:
		t.resets++
	case record.OutcomeClosedEarly:
		t.cut++
	case record.OutcomeEndpointLost:
		t.lost++
	case record.OutcomeUnanswered:
		t.mute++
	default:
		if well = r.BytesFromClient == 0 || r.BytesFromEndpoint > 0 || r.CarriedBy == record.Kernel; !well {
			t.mute++
		}
	}
	if well {
		t.wellSince++
	} else {
		t.bad(ended)
	}
	if took := r.FirstByte - max(r.Connect, 0); r.FirstByte >= 0 && took >= 0 && r.CarriedBy == record.Userspace {
		t.first = append(t.first, took)
	}
}

// bad notes when something failed.
func (t *tally) bad(ended time.Time) {
	if t.wellSince = 0; t.began.IsZero() {
		t.began = ended
	}
}

// failures are the connections and dials of the endpoint that failed.
func (t *tally) failures() int { return t.failed + t.broken() }

// cases are the connections and dials of the endpoint that could have failed, at least 1.
func (t *tally) cases() int { return max(t.failed+t.served, 1) }

// broken are the connections of the endpoint that failed.
func (t *tally) broken() int { return t.resets + t.cut + t.lost + t.mute }

// What an endpoint's tally has to show for a verdict: this many failures, one in so many, and not as many as that in a
// row that went well since.
const (
	enough = 2
	oneIn  = 10
)

// fails tells whether so many failures of so many cases decide a verdict.
func (t *tally) fails(failures, of int) bool {
	return failures >= enough && failures*oneIn >= of && t.wellSince < oneIn
}

// median is the middle of the first bytes' times; false: there are too few.
func (t *tally) median() (time.Duration, bool) {
	if len(t.first) < enough {
		return 0, false
	}
	slices.Sort(t.first)
	return t.first[len(t.first)/2], true
}

// others returns the median of the medians of all other endpoints; false: none has one.
func (e *evidence) others(than *tally) (time.Duration, bool) {
	var all []time.Duration
	for _, t := range e.tallies {
		if m, ok := t.median(); ok && t != than {
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[(len(all)-1)/2], true
}
