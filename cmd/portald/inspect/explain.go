package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/explain"
)

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain WHAT [--from ADDRESS] [--probe | --as MODE]",
		Short: "Explain what this node does for a Service, an address, a pod or a connection, and why",
		Long: `Explain what this node does with packets, in the order in which they meet it: the frontend and which Service
has it, the mode and why, the rules in the kernel now, rules of other programs that decide before or after
them, the endpoints that clients get and why others are not used, how the last connections ended, and the
entries of conntrack. The report ends with a verdict and the command to run next. Of an endpoint it has the
rules that lead there and what conntrack has of it, without those of other endpoints.

WHAT is a Service ([NAMESPACE/]NAME[:PORT]), an endpoint (pod/NAMESPACE/NAME), an address with or without a
port, a client (client/ADDRESS, client/NAMESPACE/POD), or the id of a connection. An endpoint that was
removed is known as long as its connections are. An address that is no frontend and no endpoint is taken for
a client's.

With --probe this node also asks the endpoints in question, 16 at most, those first of which something failed.
It sends once, from the daemon, to each endpoint of TCP a connect, which it closes if it is accepted, and to
its host a connect to port 1, which hosts refuse, and a ping. Each has one second. What comes back tells a
host that is gone, a port without a listener, and a port whose packets are dropped. Nothing is sent without
--probe, nothing but this with it, and nothing to other addresses than endpoints of the Service.

With --as userspace or --as kernel the report says instead what would change for clients, endpoints and
policies of the network if the Service had that mode now (annotation portald.io/mode). It changes nothing.

Exit code 4: this node knows nothing of that name; the nearest names are printed.`,
		Example: `  # Why does a Service not answer?
  portald explain shop/cart

  # What happens to the packets of one client?
  portald explain shop/cart:http --from 10.244.1.7

  # Why does a pod get no connections?
  portald explain pod/shop/cart-a

  # Is it the pod, its host or the network?
  portald explain shop/cart --probe

  # What would change if the kernel carried a Service?
  portald explain shop/cart --as kernel

  # What do connections of a client do?
  portald explain client/10.244.1.7

  # What happened to a connection? The id is from portald conns or a record.
  portald explain 1041`,
		Args: exactly("what to explain, a Service, an address, a pod, a client or the id of a connection",
			"portald explain shop/cart"),
		ValidArgsFunction: completeArgs(completeServices()),
	}
	from := cmd.Flags().String("from", "", "explain it for the client with this `ADDRESS`")
	as := &choice{among: explain.Modes()}
	addChoice(cmd, as, "as", "", "what would change if the Service had this mode")
	probe := cmd.Flags().Bool("probe", false, "ask the endpoints: this sends to them, and to their hosts")
	cmd.MarkFlagsMutuallyExclusive("from", "as")
	cmd.MarkFlagsMutuallyExclusive("probe", "as")
	output := &choice{word: outputText, among: []string{outputText, outputJSON}}
	addChoice(cmd, output, "output", "o", "a text for people, or json")
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := explain.Parse(args[0], *from); err != nil {
			return usage("explain %w", err)
		}
		ask := func(ctx context.Context, c *adminsocket.Client) (explain.Report, error) {
			switch {
			case *probe:
				return c.Probe(ctx, adminsocket.Probe{What: args[0], From: *from})
			case as.word != "":
				return c.Flip(ctx, args[0], as.word)
			}
			return c.Explain(ctx, args[0], *from)
		}
		if *probe { // it sends
			dial.More()
		}
		if dial.many() {
			return Failed(cmd.Context(), explainNodes(cmd, dial, ask, args[0], output.word == outputJSON))
		}
		client := dial.Client()
		defer client.Close()
		return Failed(cmd.Context(), printExplained(cmd, client, ask, args[0], output.word == outputJSON))
	}
	return cmd
}

func printExplained(
	cmd *cobra.Command, client *adminsocket.Client, ask askReport, what string, asJSON bool,
) error {
	report, err := ask(cmd.Context(), client)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if asJSON {
		var text []byte
		if text, err = json.MarshalIndent(report, "", "  "); err == nil {
			_, err = fmt.Fprintf(out, "%s\n", printable.JSON(text))
		}
	} else {
		_, err = out.Write(newSheet(out).report(&report))
	}
	if err == nil && !report.Known() {
		return nothing("explain: nothing on this node is known by %s", printable.Text(what))
	}
	return err
}

// sheet is how a report is printed.
type sheet struct {
	color bool
	marks map[explain.Status]string
}

// newSheet returns the sheet for an output: colours for terminals alone, and marks of the locale's characters.
func newSheet(out io.Writer) sheet {
	s := sheet{colored(out), map[explain.Status]string{
		explain.Fact: " ", explain.Good: "✓", explain.Doubt: "!", explain.Wrong: "✗",
	}}
	if !unicodeLocale(os.Getenv) {
		s.marks[explain.Good], s.marks[explain.Wrong] = "+", "x"
	}
	return s
}

func (s sheet) report(r *explain.Report) (b []byte) {
	heading := printable.Text(r.What)
	if r.From != "" {
		heading += " for " + printable.Text(r.From)
	}
	if r.As != "" {
		heading += " as " + printable.Text(r.As)
	}
	b = append(b, heading+" on "+printable.Text(r.Node)+"\n"...)
	for _, section := range r.Sections {
		b = append(b, '\n')
		b = append(b, printable.Text(section.Title)+"\n"...)
		for _, line := range section.Lines {
			b = s.line(b, line)
		}
	}
	b = s.probes(b, r.Probes)
	b = append(b, '\n')
	b = s.line(b, r.Verdict)
	if len(r.Nearest) > 0 {
		b = append(b, "  Did you mean: "+printable.Text(strings.Join(r.Nearest, ", "))+"\n"...)
	}
	if r.Next != "" {
		b = append(b, "  Next: "+printable.Text(r.Next)+"\n"...)
	}
	return b
}

func (s sheet) line(b []byte, l explain.Line) []byte {
	mark := s.marks[l.Status]
	if s.color {
		b = s.paint(l.Status).append(b, []byte(mark))
	} else {
		b = append(b, mark...)
	}
	b = append(b, ' ')
	b = append(b, printable.Text(l.Text)+"\n"...)
	for _, d := range l.Details {
		b = append(b, "    "+printable.Text(d)+"\n"...)
	}
	return b
}

func (s sheet) paint(status explain.Status) paint {
	switch status {
	case explain.Good:
		return green
	case explain.Doubt:
		return yellow
	case explain.Wrong:
		return red
	}
	return plain
}
