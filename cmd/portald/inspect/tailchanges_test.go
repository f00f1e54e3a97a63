package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
)

// changed adds changes of cart, at these times.
func (b *bed) changed(times ...time.Time) {
	cart := service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP}
	for _, t := range times {
		b.changes.Add(changes.Change{Time: t, Kind: changes.EndpointAdded, Service: cart, Endpoint: addr("10.1.0.3:8080"),
			New: "ready"})
	}
}

// order has an r for each record that was printed, and a c for each change.
func order(out string) (order string) {
	for line := range strings.Lines(out) {
		kind := "r"
		if strings.Contains(line, "added") {
			kind = "c"
		}
		order += kind
	}
	return order
}

// Changes stand before the records of connections that ended later; those before the first record are left out.
func TestTailChanges(t *testing.T) {
	b := newBed(t)
	b.observe(ended()...) // they end at noon, 260 s later, and an hour later
	b.changed(noon.Add(-time.Hour), noon.Add(time.Minute), noon.Add(10*time.Minute), noon.Add(2*time.Hour))
	for line, want := range map[string]string{
		"tail --changes":                               "rcrcrc",
		"tail --changes -o json":                       "rcrcrc",
		"tail --changes --last 1":                      "rc",
		"tail --changes --since 2026-11-21T12:00:00Z":  "rcrcrc",
		"tail --changes --since 2026-11-21T10:00:00Z":  "crcrcrc",
		"tail --changes --first 1":                     "r",
		"tail --changes --service shop/till":           "",
		"tail --changes --outcome ok --service shop/*": "rccc",
	} {
		r := b.run(strings.Fields(line)...)
		if got := order(r.out); r.err != nil || got != want {
			t.Errorf("%s: %v, %s, want %s\n%s", line, r.err, got, want, r.out)
		}
	}
	for _, line := range []string{"-o table", "-o dict", "--group-by pod", "--input-file -"} {
		r := b.run(strings.Fields("tail --changes " + line)...)
		if r.err == nil || !strings.Contains(r.err.Error(), "--changes: ") {
			t.Errorf("%s: %v", line, r.err)
		}
	}
}

// With -f both are printed as they come, behind the past.
func TestFollowChanges(t *testing.T) {
	b := newBed(t)
	all := ended()
	b.observe(all[:2]...)
	b.changed(noon.Add(time.Minute))
	f := b.follow("--changes", "--last", "2")
	f.await(t, func() bool { return order(f.out.String()) == "rcr" })
	b.changed(time.Now())
	f.await(t, func() bool { return order(f.out.String()) == "rcrc" })
	f.await(t, func() bool { // until it follows
		b.observe(all[2])
		return strings.HasPrefix(order(f.out.String()), "rcrcr")
	})
	f.cancel()
	if err := f.end(t); err != nil {
		t.Error(err)
	}
}
