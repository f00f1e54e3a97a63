package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/portald/portald/cmd/portald/config"
)

// The scripts for Windows call subcommands and flags that there are.
func TestScriptsCallCommands(t *testing.T) {
	calls := regexp.MustCompile(`(?:-Argument |\$\w+ \+?= (?:@\()?)('[a-z-]+'(?:, '[a-z-]+')*)`)
	for script, one := range map[string]string{"install.ps1": "service start", "uninstall.ps1": "service uninstall"} {
		text, err := os.ReadFile("../../deploy/windows/" + script)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, call := range calls.FindAllStringSubmatch(string(text), -1) {
			words := strings.Split(strings.ReplaceAll(call[1], "'", ""), ", ")
			found = found || strings.Join(words, " ") == one
			if !known(words) {
				t.Errorf("%s: portald has no %q", script, words)
			}
		}
		if !found {
			t.Errorf("%s does not call %s", script, one)
		}
	}
}

// known tells whether words are a subcommand, or flags of one or of the daemon.
func known(words []string) bool {
	if !strings.HasPrefix(words[0], "--") {
		cmd, rest, err := root().Find(words)
		return err == nil && cmd.HasParent() && len(rest) == 0
	}
	for _, w := range words {
		name := strings.TrimPrefix(w, "--")
		there := name == "" || installCommand().Flags().Lookup(name) != nil
		for _, s := range config.NewFlags().Sections() {
			there = there || s.Flags.Lookup(name) != nil
		}
		if !there {
			return false
		}
	}
	return true
}
