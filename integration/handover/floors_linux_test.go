package handover

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/load"
	"github.com/portald/portald/proxy/adminsocket"
)

// Bounds of exchanges during hand-overs, where exchanges without one take less: a machine whose CPUs are busy anyway
// does not show the time that a hand-over adds.
const (
	pauseP99 = 20 * time.Millisecond
	pauseMax = 100 * time.Millisecond
)

// between is the time from one hand-over to the next.
const between = time.Second

// One portald after the other serves a node under load: bulk, half-closed, idle, asking and slow connections, new ones,
// and UDP. Each byte arrives once, none of them is refused or reset, and each has one record.
func TestNobodyNotices(t *testing.T) {
	l := underLoad(bed.New(t))
	open, err := l.daemon.Admin().Connections(t.Context(), adminsocket.ConnectionQuery{Protocols: []string{"tcp"}})
	l.Must(err)
	var took []string
	for range l.restarts {
		l.client.tell(restart)
		next := l.daemon.Succeed()
		if code := l.daemon.Exit(); code != 0 {
			t.Errorf("a predecessor ended with code %d", code)
		}
		next.WaitReady()
		l.client.tell(rest)
		time.Sleep(between)
		took = append(took, tookOver.FindString(next.Log.String()))
		l.daemon = next
	}
	r, ends := l.end()
	t.Logf("hand-overs:\n%s", strings.Join(took, "\n"))
	show(t, l.size, r)
	checkStreams(t, l.size, r, ends)
	checkSpells(t, l.size, r)
	checkRecords(t, r, l.daemon.Records(), open)
}

var tookOver = regexp.MustCompile(`msg="Took over from .*`)

// show logs the table.
func show(t *testing.T, n size, r *load.StreamsResult) {
	t.Helper()
	bytes := map[load.Kind]int64{}
	count := map[load.Kind]int{}
	for _, e := range r.Streams {
		count[e.Kind]++
		bytes[e.Kind] += e.In + e.Out
	}
	var kinds []string
	for k, c := range count {
		kinds = append(kinds, fmt.Sprintf("%d %s (%d MB)", c, k, bytes[k]>>20))
	}
	slices.Sort(kinds)
	t.Logf("%d restarts, %d connections: %s; %d new ones a second; %d UDP sessions", n.restarts, len(r.Streams),
		strings.Join(kinds, ", "), n.rate, n.sessions)
	var lines []string
	for _, s := range r.Totals {
		lines = append(lines, s.String())
	}
	lines = append(lines, "one by one:")
	for _, s := range r.Spells {
		lines = append(lines, s.String())
	}
	t.Logf("times in ms: p50, p99, longest\n%s", strings.Join(lines, "\n"))
}

// checkStreams fails for a connection that has not carried all bytes, of each direction once, to its good end.
func checkStreams(t *testing.T, n size, r *load.StreamsResult, there map[uint32]load.StreamEnd) {
	t.Helper()
	checkCount(t, n, r, there)
	wrong := 0
	for _, e := range r.Streams {
		o := there[e.ID]
		if isWhole(e, o) {
			continue
		}
		if wrong++; wrong <= 10 {
			t.Error(describe(e, o))
		}
	}
	if wrong > 0 {
		t.Errorf("%d connections are not whole", wrong)
	}
}

func checkCount(t *testing.T, n size, r *load.StreamsResult, there map[uint32]load.StreamEnd) {
	t.Helper()
	if len(r.Streams) != 5*n.each || len(there) != 5*n.each {
		t.Errorf("%d connections at the client, %d at the servers, want %d", len(r.Streams), len(there), 5*n.each)
	}
}

// isWhole tells of a connection, as both its ends saw it, whether all bytes arrived and both directions ended well.
func isWhole(client, server load.StreamEnd) bool {
	return client.Failed == "" && server.Failed == "" && client.In == server.Out && client.Out == server.In &&
		client.In+client.Out > 0
}

func describe(client, server load.StreamEnd) string {
	return fmt.Sprintf("%s connection of %s: at the client %d in, %d out %s; at the server %d in, %d out %s", client.Kind,
		client.Client, client.In, client.Out, client.Failed, server.In, server.Out, server.Failed)
}

// checkSpells fails for new connections that failed, for more loss of UDP than without restarts, and in full for long
// pauses.
func checkSpells(t *testing.T, n size, r *load.StreamsResult) {
	t.Helper()
	for _, failed := range r.Failed {
		t.Error(failed)
	}
	busy := false // without a hand-over
	for _, s := range r.Totals {
		switch s.Name {
		case quiet:
			busy = busy || s.Asked.P99 >= pauseP99 || s.Asked.Max >= pauseMax
		case rest:
			busy = busy || s.Asked.P99 >= pauseP99
		}
	}
	lost := map[bool]float64{} // share, by whether it is that of restarts
	for _, s := range r.Totals {
		if s.Refused+s.Reset+s.TimedOut+s.Broken > 0 {
			t.Errorf("%s: %d connections refused, %d reset, %d timed out, %d otherwise broken", s.Name, s.Refused, s.Reset,
				s.TimedOut, s.Broken)
		}
		if s.Doubled+s.Misplaced > 0 {
			t.Errorf("%s: %d datagrams doubled, %d misplaced", s.Name, s.Doubled, s.Misplaced)
		}
		lost[s.Name == restart] += float64(s.Lost) / float64(max(1, s.Heard.Count+s.Lost))
		if s.Name == restart && *full && (s.Asked.P99 >= pauseP99 || s.Asked.Max >= pauseMax) {
			complain := t.Errorf
			if busy {
				complain = t.Logf
			}
			complain("exchanges during restarts take %s (p99), %s (longest), want less than %s and %s; too busy without: %t",
				s.Asked.P99, s.Asked.Max, pauseP99, pauseMax, busy)
		}
		if s.Name == restart && s.Connected.Count < int64(n.restarts) {
			t.Errorf("%d new connections during %d restarts", s.Connected.Count, n.restarts)
		}
	}
	if lost[true] > lost[false] {
		t.Errorf("%.4f %% of datagrams are lost during restarts, %.4f %% without", 100*lost[true], 100*lost[false])
	}
}

// checkRecords fails unless each connection has one record, and those that were open at the beginning have the id and
// the time that they had there.
func checkRecords(t *testing.T, r *load.StreamsResult, all []bed.Record, open []adminsocket.Connection) {
	t.Helper()
	want := map[string]int{} // by protocol and client
	for client, n := range r.Clients {
		want["TCP "+client] += n
	}
	for _, e := range r.Streams {
		want["TCP "+e.Client]++
	}
	for _, client := range r.Sessions {
		want["UDP "+client]++
	}
	began := map[string]adminsocket.Connection{}
	for _, c := range open {
		began[c.Client.String()] = c
	}
	steady := map[string]bool{}
	for _, e := range r.Streams {
		steady[e.Client] = true
		if _, known := began[e.Client]; !known {
			t.Errorf("%s was not shown before the restarts", e.Client)
		}
	}
	ids := map[uint64]bool{}
	for _, rec := range all {
		want[strings.ToUpper(rec.Protocol)+" "+rec.Client]--
		if ids[rec.ID] {
			t.Errorf("two records have id %d", rec.ID)
		}
		ids[rec.ID] = true
		if c, is := began[rec.Client]; is && steady[rec.Client] && rec.Protocol == "tcp" &&
			rec.Time.Sub(c.Start).Abs() < time.Second &&
			(rec.ID != c.ID || !rec.Time.Equal(c.Start.Truncate(time.Microsecond))) {
			t.Errorf("%s has id %d, %s; it had %d, %s", rec.Client, rec.ID, rec.Time, c.ID, c.Start)
		}
		if rec.Outcome != "ok" && rec.Protocol == "tcp" {
			t.Errorf("recorded as %s", rec)
		}
	}
	missing, doubled := 0, 0
	for client, n := range want {
		missing += max(0, n)
		doubled += max(0, -n)
		if n != 0 && missing+doubled <= 10 {
			t.Errorf("%s: %d records too few", client, n)
		}
	}
	t.Logf("%d records, %d missing, %d doubled", len(all), missing, doubled)
}
