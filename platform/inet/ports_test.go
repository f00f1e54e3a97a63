package inet

import (
	"slices"
	"testing"
)

func TestParsePortRanges(t *testing.T) {
	for text, want := range map[string][]PortRange{
		"":                          nil,
		"11211\n":                   {{11211, 11211}},
		"16443,20000-20010,65535\n": {{16443, 16443}, {20000, 20010}, {65535, 65535}},
	} {
		if got, err := ParsePortRanges(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "1-", "9-8", "70000", "1,,2"} {
		if got, err := ParsePortRanges(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestPortRange(t *testing.T) {
	r := PortRange{10, 19}
	if r.Size() != 10 || !r.Contains(10) || !r.Contains(19) || r.Contains(9) || r.Contains(20) || r.String() != "10-19" {
		t.Errorf("%s has %d ports", r, r.Size())
	}
	if n := (PortRange{2, 1}).Size(); n != 0 {
		t.Errorf("a range that ends before it begins has %d ports", n)
	}
	overlaps := map[PortRange]bool{{1, 9}: false, {1, 10}: true, {12, 13}: true, {19, 30}: true, {20, 30}: false}
	for o, want := range overlaps {
		if got := r.Overlaps(o); got != want {
			t.Errorf("%s overlaps %s: %t", r, o, got)
		}
	}
}
