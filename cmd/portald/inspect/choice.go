package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// choice is the value of a flag that takes one of a few words.
type choice struct {
	word  string
	among []string
}

// String implements pflag.Value.
func (c *choice) String() string { return c.word }

// Type implements pflag.Value.
func (c *choice) Type() string { return strings.Join(c.among, "|") }

// Set implements pflag.Value.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.among, word) {
		return fmt.Errorf("must be %s", list(c.among))
	}
	c.word = word
	return nil
}

// list writes words as a sentence has them: a, b or c.
func list(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// addChoice gives a command a flag that takes one of a few words, and its completion.
func addChoice(cmd *cobra.Command, c *choice, name, short, usage string) {
	cmd.Flags().VarP(c, name, short, usage)
	complete(cmd, name, words(c.among...))
}
