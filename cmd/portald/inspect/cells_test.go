package inspect

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Ages are kubectl's, to the second.
func TestAges(t *testing.T) {
	for d := -3 * time.Second; d < 4*time.Hour; d += 500 * time.Millisecond {
		if got, want := string(appendDuration(nil, d)), duration.HumanDuration(d); got != want {
			t.Fatalf("%v is %s, want %s", d, got, want)
		}
	}
	for _, d := range []time.Duration{26 * time.Hour, 9 * 24 * time.Hour, 3 * 366 * 24 * time.Hour} {
		if got, want := string(appendDuration(nil, d)), duration.HumanDuration(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
	if got := string(appendAge(nil, time.Now(), time.Time{})); got != none {
		t.Errorf("no moment is %s", got)
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 999: "999B", 1000: "1.0kB", 9949: "9.9kB", 9951: "10kB", 999_499: "999kB", 999_500: "1.0MB",
		45_000_000: "45MB", 9_876_543_210: "9.9GB", 1 << 62: "4.6EB",
	} {
		if got := string(appendSize(nil, n)); got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
	for ms, want := range map[float64]string{
		0: "0.00ms", 0.04: "0.04ms", 0.42: "0.4ms", 12: "12ms", 999: "999ms", 1234: "1.2s",
	} {
		if got := string(appendMillis(nil, ms)); got != want {
			t.Errorf("%v ms are %s, want %s", ms, got, want)
		}
	}
}

// Nothing that anybody may have written reaches the terminal as a command to it.
func TestTextsAreHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"shop/cart": "shop/cart", "": "-", "größe": "größe", "a\x1b[31mb": `a\x1b[31mb`, "\u009b2J": `\u009b2J`,
		"\u202etxt": `\u202etxt`, "a\nb\tc": `a\nb\tc`, "\xff": `\xff`, "\x7f": `\x7f`,
	} {
		if got := string(appendText(nil, text)); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
	}
}
