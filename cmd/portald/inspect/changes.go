package inspect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
)

func changesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "changes [NAME...] [flags]",
		Short: "Print what changed on this node: endpoints, Services, and what portald did",
		Long: `Print what changed, the oldest first: endpoints that were added, removed or drained, became ready, unready or
terminating, or were ejected since they failed connections; Services, with the old and the new value, or that
the host refuses; connections that were cut, the level of the log, and what other programs did to rules; the
start, take-over and end of portald, why it applied everything again, and whether the API server answers.

The daemon keeps the last ` + fmt.Sprint(changes.DefaultSize) + ` changes, those too of the portald from which it
took over; after a crash the list begins anew. A Service that changes all the time is told at most twice a
second, after a burst, with the number of changes that are left out.

NAME is [NAMESPACE/]NAME[:PORT]; * stands for any part.`,
		Example: `  # What changed just before the errors began?
  portald changes --since 10m

  # The endpoints of one Service, as they come and go.
  portald changes shop/cart -f`,
		ValidArgsFunction: completeArgs(completeServices()),
	}
	s := &scope{}
	s.add(cmd)
	f := cmd.Flags()
	since := f.String("since", "", "at that `TIME` or later: RFC 3339, or a duration back from now, such as 5m")
	last := f.Int("last", 20, "print the latest `NUMBER`; without the flag all of them with --since, and none with -f "+
		"alone")
	follow := f.BoolP("follow", "f", false, "print new changes as they come, until Ctrl-C")
	output := &choice{word: outputText, among: []string{outputText, outputJSON}}
	addChoice(cmd, output, "output", "o", "a line for people, or a JSON object, for each")
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q := adminsocket.ChangeQuery{
			Services: append(s.services, args...), Namespaces: s.namespaces(), Last: *last, Follow: *follow,
		}
		if *last < 0 {
			return usage("--last %d: must be 0 or more", *last)
		}
		if *since != "" {
			t, err := connlog.ParseTime(*since, time.Now())
			if err != nil {
				return usage("--since %q: must be %w", *since, err)
			}
			q.Since = t
		}
		switch given := cmd.Flags().Changed; {
		case given("last"):
		case given("since"):
			q.Last = everything
		case *follow:
			q.Last = 0
		}
		return Failed(cmd.Context(), printChanges(cmd, dial, q, output.word == outputJSON))
	}
	return cmd
}

func printChanges(cmd *cobra.Command, dial *Dial, q adminsocket.ChangeQuery, asJSON bool) error {
	client := dial.Client()
	defer client.Close()
	out := bufio.NewWriter(cmd.OutOrStdout())
	printed := false
	err := client.Changes(cmd.Context(), q, func(l *changes.Line) error {
		printed = true
		if _, err := out.WriteString(changeText(l, asJSON)); err != nil || !q.Follow {
			return err
		}
		return out.Flush()
	}, func(g adminsocket.Gap) error {
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "%d changes came faster than they were printed.\n", g.Missed)
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if err == nil && !printed && !q.Follow {
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), "No changes.")
	}
	return err
}

// changeText is a change as it is printed, with the end of the line.
func changeText(l *changes.Line, asJSON bool) string {
	if !asJSON {
		return l.Print() + "\n"
	}
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // it is made of texts
	}
	return string(printable.JSON(text)) + "\n"
}
