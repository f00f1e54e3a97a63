package writer

import (
	"slices"
	"testing"
)

func TestRefcount(t *testing.T) {
	r := NewRefcount[string]()
	expect := func(when string, added, removed, kept []string) {
		t.Helper()
		for what, got := range map[string][2][]string{
			"added": {r.Added(), added}, "removed": {r.Removed(), removed}, "kept": {r.Kept(), kept},
		} {
			slices.Sort(got[0])
			if !slices.Equal(got[0], got[1]) {
				t.Errorf("%s: %s %q, want %q", when, what, got[0], got[1])
			}
		}
	}
	r.MarkInstalled("stale")
	r.MarkInstalled("used")
	r.Add(1, "used")
	r.Add(2, "new")
	if !r.WasInstalled("used") || r.WasInstalled("new") {
		t.Error("what was found is not what was there")
	}
	expect("at first", []string{"new"}, []string{"stale"}, []string{"used"})
	r.Settle()
	expect("settled", nil, nil, nil)
	r.Add(-1, "new")
	r.Add(-1, "used")
	r.Add(1, "passing")
	r.Add(-1, "passing")
	expect("fewer", nil, []string{"used"}, []string{"new"})
	if counts := r.Counts(); len(counts) != 1 || counts["new"] != 1 {
		t.Errorf("counts %v, want one of new", counts)
	}
}
