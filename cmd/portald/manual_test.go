package main

import (
	"os"
	"path/filepath"
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

// Each page of the manual says in its third line for whom it is, and the page to start with has it.
func TestPagesSayForWhom(t *testing.T) {
	start, err := os.ReadFile("../../docs/README.md")
	if err != nil {
		t.Skip("the manual is read where it is built: ", err)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name := filepath.Base(page)
		if name == "README.md" {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.SplitN(string(text), "\n", 4); len(lines) < 4 || !strings.HasPrefix(lines[2], "For ") {
			t.Errorf("docs/%s does not say in its third line: For …", name)
		}
		if !strings.Contains(string(start), "- ["+name+"]("+name+"): ") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}
