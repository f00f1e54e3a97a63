package ipvs

import (
	"os"
	"strings"
	"testing"

	"github.com/portald/portald/platform/netnstest"
)

// The error on a host without IPVS names the missing part and the remedy.
func TestUsableSaysWhatIsMissing(t *testing.T) {
	netnstest.Enter(t)
	err := Usable(Options{})
	if err == nil {
		return // this kernel has everything, as the guest's should
	}
	t.Log(err)
	if os.Getenv("VM_IN_GUEST") == "1" {
		t.Error("the guest's kernel should have everything")
	}
	for _, word := range []string{"modprobe", "ipvs.fallback: iptables"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v: does not name %s", err, word)
		}
	}
}
