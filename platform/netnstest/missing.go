package netnstest

import (
	"os"
	"testing"
)

// Missing skips a test that lacks something, or fails it when all must run (REQUIRE_ALL=1).
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("REQUIRE_ALL") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
