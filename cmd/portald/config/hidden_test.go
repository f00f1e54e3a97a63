package config

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The release before is computed from this program's libraries of Kubernetes.
func TestPreviousRelease(t *testing.T) {
	text, err := os.ReadFile("../../../go.mod")
	check(t, err)
	found := regexp.MustCompile(`k8s\.io/kube-proxy v0\.(\d+)\.`).FindStringSubmatch(string(text))
	if found == nil {
		t.Fatal("go.mod has no k8s.io/kube-proxy")
	}
	minor, err := strconv.Atoi(found[1])
	check(t, err)
	if want := "1." + strconv.Itoa(minor-1); previousRelease != want {
		t.Errorf("%s, and go.mod says %s", previousRelease, want)
	}
}

func TestShowHiddenMetrics(t *testing.T) {
	for value, accepted := range map[string]bool{"": true, "1.36": true, "1.35": false, "1.37": false, "v1.36": false} {
		flags := NewFlags()
		for _, s := range flags.Sections() {
			if f := s.Flags.Lookup("show-hidden-metrics-for-version"); f != nil {
				check(t, s.Flags.Set(f.Name, value))
			}
		}
		_, _, err := flags.Complete()
		if refused := err != nil && strings.Contains(err.Error(), "must be 1.36, or be omitted"); refused == accepted {
			t.Errorf("%q: %v", value, err)
		}
	}
}
