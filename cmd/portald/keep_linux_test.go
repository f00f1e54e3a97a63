package main

import (
	"os"
	"strings"
	"testing"

	"github.com/portald/portald/proxy/succession"
)

// The manual has the same age as the code from which on a connection outlives a crash.
func TestManualTellsKeptAge(t *testing.T) {
	for _, page := range []string{"restarts.md", "architecture.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		if want := "older than " + succession.KeptAge.String(); !strings.Contains(string(text), want) {
			t.Errorf("docs/%s does not say %q", page, want)
		}
	}
}
