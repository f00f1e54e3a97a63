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
	check func(word string) error // of words that begin as one of these ends, by =; nil: there are none
}

// String implements pflag.Value.
func (c *choice) String() string { return c.word }

// Type implements pflag.Value.
func (c *choice) Type() string { return strings.Join(c.among, "|") }

// Set implements pflag.Value.
func (c *choice) Set(word string) error {
	if name, rest, _ := strings.Cut(word, "="); rest != "" && c.check != nil && slices.Contains(c.among, name+"=") {
		c.word = word
		return c.check(word)
	}
	if !slices.Contains(c.among, word) || strings.HasSuffix(word, "=") {
		return mustBe(c.among)
	}
	c.word = word
	return nil
}

func mustBe(among []string) error { return fmt.Errorf("must be %s", list(among)) }

// choices is the value of a flag that takes some of a few words: several times, or with commas.
type choices struct {
	words []string
	among []string
}

// String implements pflag.Value.
func (c *choices) String() string { return strings.Join(c.words, ",") }

// Type implements pflag.Value.
func (c *choices) Type() string { return "strings" }

// Set implements pflag.Value.
func (c *choices) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		if !slices.Contains(c.among, word) {
			return mustBe(c.among)
		}
		c.words = append(c.words, word)
	}
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

// addChoices gives a command a flag that takes some of a few words, and its completion.
func addChoices(cmd *cobra.Command, c *choices, name, usage string) {
	cmd.Flags().Var(c, name, usage)
	complete(cmd, name, words(c.among...))
}

// addChoice gives a command a flag that takes one of a few words, and its completion.
func addChoice(cmd *cobra.Command, c *choice, name, short, usage string) {
	cmd.Flags().VarP(c, name, short, usage)
	complete(cmd, name, words(c.among...))
}
