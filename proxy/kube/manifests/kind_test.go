package manifests

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"
)

// kinds.txt has the kinds that client-go knows; UPDATE_GOLDEN=1 writes them.
func TestKindsOfKubernetes(t *testing.T) {
	kinds := map[string]map[string]bool{}
	for kind, of := range scheme.Scheme.AllKnownTypes() {
		if strings.HasPrefix(of.PkgPath(), "k8s.io/api/") {
			group := kind.Group
			if group == "" {
				group = "v1"
			}
			if kinds[group] == nil {
				kinds[group] = map[string]bool{}
			}
			kinds[group][kind.Kind] = true
		}
	}
	kinds["v1"][kindList] = true
	var want strings.Builder
	for _, group := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&want, "%s: %s\n", group, strings.Join(slices.Sorted(maps.Keys(kinds[group])), " "))
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile("kinds.txt", []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), kindsText); diff != "" {
		t.Errorf("kinds.txt (-want +got); UPDATE_GOLDEN=1 writes it\n%s", diff)
	}
}
