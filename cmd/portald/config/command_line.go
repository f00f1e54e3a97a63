package config

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/portald/portald/proxy/secret"
)

// ShownLine returns a command line of the daemon without its secrets.
func ShownLine(line []string) []string {
	out, flags := slices.Clone(line), NewFlags()
	for i, word := range out {
		name, value, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag := flags.lookup(name)
		if !strings.HasPrefix(word, "-") || flag == nil || !isSecret(flag) {
			continue
		}
		switch {
		case joined:
			out[i] = word[:len(word)-len(value)] + hide(flag, value)
		case i+1 < len(out):
			out[i+1] = hide(flag, out[i+1])
		}
	}
	return out
}

// CommandLine returns the command line of this process, without its secrets.
func CommandLine() []string { return ShownLine(os.Args) }

func isSecret(flag *pflag.Flag) bool {
	_, list := flag.Value.(*headers)
	_, one := flag.Value.(secret.Secret)
	return list || one
}

// hide is how a value of a flag is shown.
func hide(flag *pflag.Flag, value string) string {
	fresh := NewFlags().lookup(flag.Name).Value
	_ = fresh.Set(value) // it takes every text
	return fresh.String()
}

// FlagError is an error about flags without the value that some of them would show.
func FlagError(err error) error {
	flag := ""
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok && len(e.GetSpecifiedShortnames()) > 1 {
		flag = "-" + e.GetSpecifiedShortnames()
	}
	if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		flag = e.GetSpecifiedFlag()
	}
	if flag == "" {
		return err
	}
	name, _, _ := strings.Cut(flag, "=")
	return errors.New(name + ": there is no such flag; those with names of more than one letter begin with two dashes")
}
