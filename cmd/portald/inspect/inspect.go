// Package inspect has the commands that look into a running portald, and those that change it. They are clients of its
// admin API, and print tables as kubectl does. The package does not know how the daemon comes by its answers.
package inspect

import (
	"slices"

	"github.com/spf13/cobra"
)

// Commands returns the commands, each in a group.
func Commands() []*cobra.Command {
	return slices.Concat(
		group(GroupReadOnly, explainCommand(), connsCommand(), servicesCommand(), endpointsCommand(), tailCommand(),
			changesCommand(), doctorCommand(), readyCommand()),
		group(GroupChange, cutCommand(), drainCommand(), loglevelCommand()),
		group(GroupReadOnly, connectCommand()),
	)
}

// group puts commands into a group, and gives errors of their command lines the exit code.
func group(id string, commands ...*cobra.Command) []*cobra.Command {
	for _, cmd := range commands {
		cmd.GroupID = id
		cmd.Flags().SortFlags = false
		cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%w", err) })
		if args := cmd.Args; args != nil {
			cmd.Args = func(cmd *cobra.Command, given []string) error { return asUsage(args(cmd, given)) }
		}
	}
	return commands
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return usage("%w", err)
}
