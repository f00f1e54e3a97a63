package inspect

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// exactly is for a command that takes one argument: what it is, and a command line that has one.
func exactly(what, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		switch len(given) {
		case 0:
			return usage("%s: an argument is missing: %s, as in %q", cmd.Name(), what, example)
		case 1:
			return nil
		}
		return usage("%s %s: takes one argument: %s", cmd.Name(), strings.Join(given, " "), what)
	}
}

// flagsOnly is for a command that takes no argument.
func flagsOnly(cmd *cobra.Command, given []string) error {
	switch {
	case len(given) == 0:
		return nil
	case cmd.Flags().Lookup("service") != nil:
		return usage("%s %s: takes flags only; for a Service --service %s", cmd.Name(), strings.Join(given, " "), given[0])
	}
	return usage("%s %s: takes flags only", cmd.Name(), strings.Join(given, " "))
}

// atMostOneOf is for a command that takes one of a few words, or none.
func atMostOneOf(words []string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) == 0 || len(given) == 1 && slices.Contains(words, given[0]) {
			return nil
		}
		return usage("%s %s: %w, or be omitted", cmd.Name(), strings.Join(given, " "), mustBe(words))
	}
}
