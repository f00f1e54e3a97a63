package main

import (
	"bytes"
	"strings"
	"testing"
)

// A command that does not exist fails, with --help too, and the one that was meant is named.
func TestUnknownCommands(t *testing.T) {
	for line, want := range map[string]string{
		"explian shop/cart":   "did you mean explain?",
		"explian --help":      "did you mean explain?",
		"help explian":        "did you mean explain?",
		"-h explian":          "did you mean explain?",
		"endpoint":            "did you mean endpoints?",
		"metrics":             "metrics: portald has no such command; portald --help lists them",
		"metrics --help":      "metrics: portald has no such command; portald --help lists them",
		"help metrics":        "metrics: portald has no such command",
		"config chekc":        "did you mean check? portald config --help lists them",
		"config chekc --help": "did you mean check?",
		"help config chekc":   "did you mean check?",
		"completion zhs":      "did you mean zsh?",
		"service stpo":        "did you mean stop?",
	} {
		err := execute(t.Context(), strings.Fields(line))
		if err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != 2 {
			t.Errorf("portald %s: %v, want %q and exit code 2", line, err, want)
		}
	}
	for _, line := range []string{"conns --help", "--help", "-h explain", "__complete metrics --h", "help", "--flag"} {
		if err := helpOfUnknown(root(), strings.Fields(line)); err != nil {
			t.Errorf("portald %s: %v", line, err)
		}
	}
}

// printed is what a command line prints.
func printed(t *testing.T, line ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetArgs(line)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("portald %s: %v", strings.Join(line, " "), err)
	}
	return out.String()
}

// portald --help fits a screen, and says where the flags are, which are many.
func TestHelpIsAScreen(t *testing.T) {
	screen := printed(t, "--help")
	if n := strings.Count(screen, "\n"); n > 40 {
		t.Errorf("portald --help has %d lines, want 40 at most", n)
	}
	all := printed(t, "help", "flags")
	for _, want := range []string{"portald explain ", "portald version ", "portald help flags"} {
		if !strings.Contains(screen, want) {
			t.Errorf("portald --help lacks %q:\n%s", want, screen)
		}
	}
	for _, want := range []string{"--proxy-mode", "--kubeconfig", "--connection-log-max-files"} {
		if strings.Contains(screen, want) || !strings.Contains(all, want) {
			t.Errorf("%s belongs to portald help flags alone", want)
		}
	}
	if of := printed(t, "help", "explain"); of != printed(t, "explain", "--help") {
		t.Errorf("portald help explain differs from portald explain --help:\n%s", of)
	}
	if names := printed(t, "__complete", "help", ""); !strings.Contains(names, "explain\n") ||
		!strings.Contains(names, "flags\n") {
		t.Errorf("completions of portald help:\n%s", names)
	}
}
