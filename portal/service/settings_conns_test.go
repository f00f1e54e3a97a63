package service

import (
	"testing"
	"time"
)

func TestRemovals(t *testing.T) {
	for text, want := range map[string]RemovedEndpoint{
		"keep":            {Do: KeepConnections},
		"close-when-idle": {Do: CloseWhenIdle},
		"reset-after=30s": {ResetConnections, 30 * time.Second},
		"reset-after=0s":  {ResetConnections, 0},
		"":                {}, "reset": {}, "reset-after": {}, "reset-after=": {}, "reset-after=-1s": {},
		"reset-after=2000h": {}, "reset-after=30": {}, "Keep": {},
	} {
		var p Port
		if is := (Removals{}).Read(text, &p); is != (want != RemovedEndpoint{}) || p.Policy.Removed != want {
			t.Errorf("%q: %v, %+v", text, is, p.Policy.Removed)
		} else if is && want.String() != text {
			t.Errorf("%q is written as %q", text, want)
		}
	}
}

func TestAges(t *testing.T) {
	const most = maxTimeout
	for text, want := range map[string]Age{
		"10m±20%": {10 * time.Minute, 20}, "10m+-20%": {10 * time.Minute, 20}, "10m ± 20 %": {10 * time.Minute, 20},
		"10m+-20": {10 * time.Minute, 20}, "10m±0": {10 * time.Minute, 0}, "1h": {time.Hour, 0}, "1000h±50%": {most, 50},
		"0": {Time: Never}, "0s": {Time: Never},
		"": {}, "10m±": {}, "10m±51%": {}, "10m±-1%": {}, "10m-20%": {}, "±20%": {}, "0±20%": {}, "1ms": {}, "1001h": {},
		"10m±20%±20%": {}, "10m±1e1": {}, "10m±20%%": {}, "-1h": {},
	} {
		var p Port
		v := Ages{Part: func(p *Port) *Age { return &p.Policy.MaxAge }}
		if is := v.Read(text, &p); is != (want != Age{}) || p.Policy.MaxAge != want {
			t.Errorf("%q: %v, %+v", text, is, p.Policy.MaxAge)
		}
	}
}

// Ages that are drawn for numbers in a row spread over all that the jitter allows, and the same number draws the same.
func TestDrawnAgesSpread(t *testing.T) {
	a := Age{10 * time.Minute, 20}
	const parts, draws = 8, 8000
	var count [parts]int
	for own := range uint64(draws) {
		age := a.Draw(own)
		if age < 8*time.Minute || age > 12*time.Minute || age != a.Draw(own) {
			t.Fatalf("%d draws %s, then %s", own, age, a.Draw(own))
		}
		count[min(parts-1, int((age-8*time.Minute)/(4*time.Minute/parts)))]++
	}
	for i, n := range count {
		if n < draws/parts*3/4 || n > draws/parts*5/4 {
			t.Errorf("%d of %d ages are in part %d of %d", n, draws, i, parts)
		}
	}
	if got := (Age{Time: time.Hour}).Draw(7); got != time.Hour {
		t.Errorf("without a jitter: %s", got)
	}
	if got := (Age{maxTimeout, maxJitter}).Draw(1 << 63); got < maxTimeout/2 || got > maxTimeout*3/2 {
		t.Errorf("the longest age: %s", got)
	}
}
