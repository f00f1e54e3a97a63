package connlog

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 11, 28, 3, 20, 0, 0, time.FixedZone("", 3600)) // 02:20 UTC
	for text, want := range map[string]time.Time{
		"5m":                        now.Add(-5 * time.Minute),
		"02:20":                     time.Date(2026, 11, 28, 2, 20, 0, 0, time.UTC),
		"02:20:01":                  time.Date(2026, 11, 27, 2, 20, 1, 0, time.UTC),
		"03:12":                     time.Date(2026, 11, 27, 3, 12, 0, 0, time.UTC),
		"2026-11-28T03:12:00+01:00": time.Date(2026, 11, 28, 2, 12, 0, 0, time.UTC),
	} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-5m", "25:00", "3:1"} {
		if got, err := ParseTime(text, now); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
