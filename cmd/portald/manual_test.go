package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestManualCommands parses the commands that the manual of debugging shows.
func TestManualCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/debugging.md")
	if err != nil {
		t.Skip("the manual is read where it is built: ", err)
	}
	shown := regexp.MustCompile("(?m)^\\$ portald (.*)$|`portald ([^`]*)`").FindAllStringSubmatch(string(text), -1)
	if len(shown) < 20 {
		t.Fatalf("the manual shows %d commands, want more", len(shown))
	}
	for _, m := range shown {
		line, _, _ := strings.Cut(m[1]+m[2], " | ")
		args := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(line, "'", ""), "\n", " "))
		if args[0] == "COMMAND" {
			continue
		}
		cmd, rest, err := root().Find(args)
		if err != nil || !cmd.HasParent() {
			t.Errorf("portald %s: no such command: %v", line, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("portald %s: %v", line, err)
		}
	}
}
