package inspect

import (
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
		Use:   "explain WHAT [--from ADDRESS]",
		Short: "Explain what this node does for a Service, an address, a pod or a connection, and why",
		Long: `Explain what this node does with packets, in the order in which they meet it: the frontend and which Service
has it, the mode and why, the rules in the kernel now, rules of other programs that decide before or after
them, the endpoints that clients get and why others are not used, how the last connections ended, and the
entries of conntrack. The report ends with a verdict and the command to run next.

WHAT is a Service (NAMESPACE/NAME[:PORT]), an endpoint (pod/NAMESPACE/NAME), an address with or without a
port, or the id of a connection.

Exit code 4: this node knows nothing of that name; the nearest names are printed.`,
		Example: `  # Why does a Service not answer?
  portald explain shop/cart

  # What happens to the packets of one client?
  portald explain shop/cart:http --from 10.244.1.7

  # Why does a pod get no connections?
  portald explain pod/shop/cart-a

  # What happened to a connection? The id is from portald conns or a record.
  portald explain 1041`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeArgs(completeServices()),
	}
	dial := AddSocket(cmd)
	from := cmd.Flags().String("from", "", "explain it for the client with this `ADDRESS`")
	output := &choice{word: outputText, among: []string{outputText, outputJSON}}
	addChoice(cmd, output, "output", "o", "a text for people, or json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := explain.Parse(args[0], *from); err != nil {
			return usage("explain %w", err)
		}
		client := dial.Client()
		defer client.Close()
		return Failed(cmd.Context(), printExplained(cmd, client, args[0], *from, output.word == outputJSON))
	}
	return cmd
}

func printExplained(cmd *cobra.Command, client *adminsocket.Client, what, from string, asJSON bool) error {
	report, err := client.Explain(cmd.Context(), what, from)
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
	b = append(b, heading+" on "+printable.Text(r.Node)+"\n"...)
	for _, section := range r.Sections {
		b = append(b, '\n')
		b = append(b, printable.Text(section.Title)+"\n"...)
		for _, line := range section.Lines {
			b = s.line(b, line)
		}
	}
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
