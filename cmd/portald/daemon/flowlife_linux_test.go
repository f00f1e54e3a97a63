package daemon

import (
	"errors"
	"iter"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/proxy/record"
)

// The flow of a session is prolonged in time, for as long as the session may live or the kernel keeps any, and again
// after a datagram; that of one that the kernel knows for longer, that has outlived itself, or that has its answer and
// the default timeout, never.
func TestFlowLife(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	all := []record.Live{
		{ID: 1, LastMoved: start, UDPIdle: 10 * time.Minute}, {ID: 2, LastMoved: start, UDPIdle: 20 * time.Second},
		{ID: 3, LastMoved: start}, {ID: 4, LastMoved: start.Add(-time.Hour), UDPIdle: time.Minute, Unanswered: true},
		{ID: 5, LastMoved: start, UDPIdle: time.Minute}, {ID: 6, LastMoved: start, UDPIdle: time.Minute, Unanswered: true},
	}
	for i := range all {
		all[i].Client = netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(all[i].ID))
	}
	var prolonged []uint16
	var by time.Duration
	var fault error
	log, said := test.NewNullLogger()
	f := &flowLife{
		sessions: func() iter.Seq[*record.Live] {
			return func(yield func(*record.Live) bool) {
				for i := range all {
					yield(&all[i])
				}
			}
		},
		timeout: func(kind string) (time.Duration, error) {
			return map[string]time.Duration{"udp_timeout": 30 * time.Second, "udp_timeout_stream": 2 * time.Minute}[kind], nil
		},
		prolong: func(client, _ netip.AddrPort, d time.Duration) error {
			prolonged, by = append(prolonged, client.Port()), d
			return fault
		},
		log: log,
	}
	for _, step := range []struct {
		after time.Duration
		want  []uint16
	}{
		{0, nil}, {11 * time.Second, []uint16{1, 3, 6}}, {21 * time.Second, nil}, {115 * time.Second, []uint16{1, 3}},
		{9*time.Minute + 55*time.Second, []uint16{1, 3}}, {11*time.Minute + 40*time.Second, []uint16{3}},
	} {
		prolonged = nil
		if next := f.prolongDue(start.Add(step.after)); next != 10*time.Second {
			t.Errorf("the next look is after %s", next)
		}
		if !slices.Equal(prolonged, step.want) {
			t.Errorf("after %s: %v, want %v", step.after, prolonged, step.want)
		}
	}
	all, prolonged, fault = all[:1], nil, errors.New("not permitted")
	all[0].LastMoved = start.Add(6 * time.Minute)
	for range 2 {
		f.prolongDue(start.Add(6*time.Minute + 15*time.Second))
	}
	if !slices.Equal(prolonged, []uint16{1}) || by != 2*time.Minute || len(said.Entries) != 1 {
		t.Errorf("after a datagram: %v by %s, said %v", prolonged, by, said.Entries)
	}
}
