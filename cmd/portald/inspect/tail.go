package inspect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
)

// tail has the arguments of `portald tail`.
type tail struct {
	filter connlog.Filter
	not    bool // reverse the next filter
	follow bool
	last   int // the latest of the past
	first  int // in all; 0: any number
	files  []string
}

func tailCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail [flags]",
		Short: "Print connection records: the latest, new ones as they come, or the records of a log file",
		Long: `Print the records of connections and UDP sessions: the last 20; or the records that flags choose among the
thousands in the daemon's memory; or, with -f, new records as they come. With --input-file the command
reads a connection log of format json instead, compressed or not, and needs no daemon.

If a flag is given twice, either value matches; different flags must all match. --not reverses the flag after
it, as in "--not --outcome ok". In names * stands for any part.`,
		Example: `  # Failures of the last ten minutes, with the number of dials.
  portald tail --since 10m --outcome failed -o table

  # New records of one Service, except records of health checks.
  portald tail -f --service shop/cart --not --from-pod 'monitoring/*'

  # Wait for the next connection that took a second dial.
  portald tail -f --first 1 --attempts '>1'

  # Which pod served a client at 03:12?
  portald tail --ip 10.244.1.7 --since 2026-11-21T03:11:00Z --until 2026-11-21T03:13:00Z \
    --input-file /var/log/portald.json --input-file /var/log/portald.json.1.gz`,
		Args: cobra.NoArgs,
	}
	t, f := &tail{}, cmd.Flags()
	f.BoolVarP(&t.follow, "follow", "f", false, "print new records as they come, until Ctrl-C")
	f.IntVar(&t.last, "last", 20, "print the latest `NUMBER` of the past; without the flag all of them with --since, "+
		"--until, --first or --input-file, and none with -f alone")
	f.IntVar(&t.first, "first", 0, "end after this `NUMBER` of records")
	f.StringArrayVar(&t.files, "input-file", nil, "read the connection log `FILE` of format json, - for standard input")
	t.addFilters(cmd)
	output := &choice{outputCompact, []string{outputCompact, outputDict, outputJSON, outputTable}}
	addChoice(cmd, output, "output", "o", "what to print: a line, a paragraph or a JSON object a record, or a table")
	noHeaders := f.Bool("no-headers", false, "print no line of headers")
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := t.complete(cmd); err != nil {
			return err
		}
		p := newRecordPrinter(output.word, !*noHeaders, t.follow, cmd.OutOrStdout(), cmd.ErrOrStderr())
		read := func() error { return t.fetch(cmd.Context(), dial, p) }
		if len(t.files) > 0 {
			read = func() error { return t.readFiles(cmd.Context(), cmd.InOrStdin(), p) }
		}
		if err := read(); err != nil || p.printed || t.follow {
			return Failed(cmd.Context(), err)
		}
		_, err := fmt.Fprintln(cmd.ErrOrStderr(), t.empty())
		return err
	}
	return cmd
}

// complete fills in how many records of the past there are to be, and refuses what cannot be meant.
func (t *tail) complete(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case t.not:
		return usage("--not: reverses the filter after it, and there is none")
	case t.last < 0:
		return usage("--last %d: must be 0 or more", t.last)
	case t.first < 0 || t.first == 0 && given("first"):
		return usage("--first %d: must be 1 or more", t.first)
	case t.follow && len(t.files) > 0:
		return usage("--input-file is read to its end: omit --follow")
	case given("last"):
	case given("since") || given("until") || len(t.files) > 0 || given("first") && !t.follow:
		t.last = everything
	case t.follow:
		t.last = 0
	}
	return nil
}

// empty says that there is no record.
func (t *tail) empty() string {
	if t.filter.Empty() {
		return "No records."
	}
	return "No records match " + printable.Text(t.filter.String()) + "."
}

// everything is a number of records that no daemon keeps.
const everything = math.MaxInt32

// errEnough ends a stream of records: there are as many as wanted.
var errEnough = errors.New("enough")

// limited returns print for as many records as wanted.
func (t *tail) limited(print func(*connlog.Line) error) func(*connlog.Line) error {
	left := t.first
	return func(l *connlog.Line) error {
		if err := print(l); err != nil {
			return err
		}
		if left--; left == 0 {
			return errEnough
		}
		return nil
	}
}

// addFilters gives the command a flag for each key of filters, and --not, which reverses the flag after it.
func (t *tail) addFilters(cmd *cobra.Command) {
	now, flags := time.Now(), cmd.Flags()
	flags.BoolVar(&t.not, "not", false, "reverse the next filter")
	for _, key := range connlog.Keys() {
		short := ""
		if key.Name == "namespace" {
			short = "n"
		}
		flags.VarP(&filterValue{t, key, now}, key.Name, short, key.Help)
	}
	addAllNamespaces(cmd)
	for name, of := range filterCompletions() {
		complete(cmd, name, of)
	}
}

// filterValue is the value of one flag of a filter.
type filterValue struct {
	tail *tail
	key  connlog.Key
	now  time.Time
}

// String implements pflag.Value.
func (v *filterValue) String() string { return "" }

// Type implements pflag.Value.
func (v *filterValue) Type() string { return v.key.Value }

// Set implements pflag.Value.
func (v *filterValue) Set(text string) error {
	not := v.tail.not
	v.tail.not = false
	return v.tail.filter.Add(not, v.key.Name, text, v.now)
}

// fetch prints the records that the flags select, from the daemon.
func (t *tail) fetch(ctx context.Context, dial *Dial, p *recordPrinter) error {
	client := dial.Client()
	defer client.Close()
	query := adminsocket.RecordQuery{Filter: t.filter, Last: t.last, Follow: t.follow}
	err := client.Records(ctx, query, t.limited(p.print), p.gap)
	if err != nil && !errors.Is(err, errEnough) {
		return errors.Join(p.flush(), err)
	}
	return p.flush()
}
