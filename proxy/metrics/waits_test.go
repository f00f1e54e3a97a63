package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/proxy/record"
)

func TestMetricsOfWaits(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	for _, r := range []record.Record{
		{}, {Connect: 3 * time.Second, Waited: 2 * time.Second}, {Connect: -1, Waited: 20 * time.Second},
		{Connect: -1, Waited: 40 * time.Second}, {Connect: -1},
	} {
		m.Waited(&r)
	}
	text := scrape(t, m)
	for line, want := range map[string]string{
		`portald_wait_seconds_bucket{result="served",le="2.5"}`:    "1",
		`portald_wait_seconds_bucket{result="unserved",le="30.0"}`: "1",
		`portald_wait_seconds_count{result="unserved"}`:            "2",
		`portald_wait_seconds_sum{result="unserved"}`:              "60.0",
	} {
		if got := strings.TrimSpace(lineOf(text, line+" ")); got != line+" "+want {
			t.Errorf("got %q, want %s %s", got, line, want)
		}
	}
}
