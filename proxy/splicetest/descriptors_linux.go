package splicetest

import (
	"os"
	"testing"
)

// openDescriptors returns how many descriptors the process has open.
func openDescriptors(t testing.TB) int64 {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(open))
}
