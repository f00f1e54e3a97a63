package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect"
)

const commandsManual = "../../docs/commands.md"

// docs/commands.md is made from the commands that ask a running daemon. UPDATE_GOLDEN=1 writes it again.
func TestManualOfCommands(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the manual has the defaults of Linux")
	}
	want := manualOfCommands()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(commandsManual, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(commandsManual)
	if err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff(want, string(text)); d != "" {
		t.Errorf("%s differs from the help texts: UPDATE_GOLDEN=1 go test ./cmd/portald -run Manual (-want +got)\n%s",
			commandsManual, d)
	}
}

const manualHead = `# Commands

For operators who look up a command, its flags or its output.

<!-- made from the commands: UPDATE_GOLDEN=1 go test ./cmd/portald -run Manual -->

These commands inspect or change the portald of this node while it runs. They need root, or portald's pod:

` + "```" + `
kubectl -n kube-system exec ds/portald -- portald conns --service shop/cart
` + "```" + `

` + "`kubectl portald`" + ` is the program kubectl-portald on the PATH: the same commands, without those of one host, for
all nodes of a cluster, through the API server. ` + "`--on-node`" + ` names one node, and ` + "`portald COMMAND --all-nodes`" + ` is
the same. Answers have the node that each is of, counts of the same Service or endpoint are added up, and a node that
does not answer within 5 s is named and left out. See "Look into all nodes" in [debugging.md](debugging.md).

- ` + "`portald --help`" + ` lists all commands, ` + "`portald help COMMAND`" + ` explains one, and ` + "`portald help flags`" + ` the
  daemon with its flags.
- The commands talk to the daemon through a Unix socket, on Windows through a named pipe, which only root can open.
  Its path is ` + "`--admin-socket`" + ` of the daemon and ` + "`--socket`" + ` of the commands.
- Tables are for people, and later versions may add columns; scripts should use ` + "`-o json`" + `. Colours appear
  only on a terminal, and not if ` + "`NO_COLOR`" + ` is set.
- ` + "`source <(portald completion bash)`" + ` enables completion of commands, flags, and the current names of
  Services, endpoints, pods and connections; zsh, fish and PowerShell are supported too.
- ` + "`make man`" + ` generates man pages with the same text.

| exit code | meaning |
|---|---|
| 0 | success, including an empty list and Ctrl-C |
| 1 | error; standard error has the message |
| 2 | the command line is wrong |
| 3 | the daemon is not reachable, or speaks another version of its API |
| 4 | the named object does not exist |

`

func manualOfCommands() string {
	var out strings.Builder
	out.WriteString(manualHead)
	all := root()
	for _, group := range all.Groups() {
		fmt.Fprintf(&out, "**%s:**\n\n", group.Title)
		for _, cmd := range all.Commands() {
			if cmd.GroupID == group.ID && !cmd.Hidden {
				fmt.Fprintf(&out, "- %s: %s\n", nameOf(cmd), cmd.Short)
			}
		}
		out.WriteString("\n")
	}
	for _, cmd := range all.Commands() {
		if isOfManual(cmd) {
			writeCommand(&out, cmd)
		}
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// isOfManual tells whether a command is one of those that the manual explains; their own --help explains the others.
func isOfManual(cmd *cobra.Command) bool {
	return !cmd.Hidden && cmd.GroupID == inspect.GroupReadOnly || cmd.GroupID == inspect.GroupChange
}

func nameOf(cmd *cobra.Command) string {
	if !isOfManual(cmd) {
		return "`portald " + cmd.Name() + "`"
	}
	return fmt.Sprintf("[`portald %s`](#portald-%[1]s)", cmd.Name())
}

func writeCommand(out *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(out, "## portald %s\n\n%s\n\n```\n%s\n```\n\n", cmd.Name(), cmp.Or(cmd.Long, cmd.Short), cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(out, "```\n%s\n```\n\n", cmd.Example)
	}
	if f := cmd.Flags().Lookup("socket"); f != nil {
		f.DefValue = "/run/portald/admin.sock" // on Linux
	}
	fmt.Fprintf(out, "```\n%s```\n\n", cmd.LocalFlags().FlagUsagesWrapped(helpWidth))
}
