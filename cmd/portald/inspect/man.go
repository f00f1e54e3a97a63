package inspect

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// ManCommand returns the command that writes man pages. They are made when portald is packaged: the command is hidden.
func ManCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "man --dir DIR",
		Short:  "Write a man page for each command",
		Args:   cobra.NoArgs,
		Hidden: true,
	}
	dir := cmd.Flags().String("dir", ".", "the `DIR` to write to; it is made")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := os.MkdirAll(*dir, 0o755); err != nil {
			return fmt.Errorf("write man pages: %w", err)
		}
		root := cmd.Root()
		root.DisableAutoGenTag = true
		return doc.GenManTree(root, &doc.GenManHeader{Section: "8", Source: "portald", Manual: "portald"}, *dir)
	}
	return cmd
}
