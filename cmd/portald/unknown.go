package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/platform/spelling"
)

// helpOfUnknown refuses a line that asks for the help of a command that does not exist. It parses the line, with the
// commands that it is given.
func helpOfUnknown(all *cobra.Command, line []string) error {
	if len(line) > 0 && strings.HasPrefix(line[0], cobra.ShellCompRequestCmd) {
		return nil // the rest is as it was typed so far
	}
	all.InitDefaultHelpCmd()
	all.InitDefaultHelpFlag()
	cmd, rest, err := all.Find(line)
	if err != nil || !cmd.HasSubCommands() {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if cmd.ParseFlags(rest) != nil {
		return nil // the line fails in any case
	}
	if asked, err := cmd.Flags().GetBool("help"); err != nil || !asked {
		return err
	}
	return onlyCommands(cmd, cmd.Flags().Args())
}

// onlyCommands is for the arguments of a command that has others, and takes none itself.
func onlyCommands(cmd *cobra.Command, given []string) error {
	if len(given) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	path, meant := cmd.CommandPath(), ""
	if word, ok := spelling.Nearest(given[0], names); ok {
		meant = "did you mean " + word + "? "
	}
	return inspect.Usage("%s: %s has no such command; %s%s --help lists them", given[0], path, meant, path)
}

// parent makes a command one that only has others: without them it prints its help.
func parent(cmd *cobra.Command) *cobra.Command {
	cmd.Args = onlyCommands
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}
