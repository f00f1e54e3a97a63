package inspect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
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
	by     *choice   // an empty word: records are not grouped
	since  time.Time // of the flag; zero: not given

	history bool // read the files of the connection log too, if what is in memory does not reach as far

	changes              bool     // print these too
	payload              bool     // print what is kept of it
	ids                  []uint64 // of records, with payload
	services, namespaces []string // of the flags
}

func tailCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail [ID...] [flags]",
		Short: "Print connection records: the latest, new ones as they come, or the records of a log file",
		Long: `Print the records of connections and UDP sessions: the last 20; or the records that flags choose among the
thousands in the daemon's memory; or, with -f, new records as they come. With --since or --until the daemon
also reads the files of its connection log, renamed and compressed ones too, where the records in memory
do not reach as far back; the command says how far they do. With --input-file it reads log files of format
json itself, compressed or not, and needs no daemon.

If a flag is given twice, either value matches; different flags must all match. --not reverses the flag after
it, as in "--not --outcome ok". In names * stands for any part.

With --payload it prints the connections that ended badly of which the daemon keeps payload, those with an ID or
those that flags choose, and behind each record the first and last 2 kB of either direction. A Service has that
done by the annotation portald.io/keep-payload=badly-ended. It is data of clients, for root and for the Role
portald-operator.`,
		Example: `  # Failures of the last ten minutes, with the number of dials.
  portald tail --since 10m --outcome failed -o table

  # New records of one Service, except records of health checks.
  portald tail -f --service shop/cart --not --from-pod 'monitoring/*'

  # Wait for the next connection that took a second dial.
  portald tail -f --first 1 --attempts '>1'

  # Failures as they come, and what changes meanwhile.
  portald tail -f --outcome failed --changes

  # Which pods failed connections in the last ten minutes, how often, and how long they took.
  portald tail --since 10m --group-by pod

  # What did clients send to which the endpoint sent a reset?
  portald tail --payload --service shop/cart --outcome endpoint_reset

  # Which pod served a client at 03:12?
  portald tail --ip 10.244.1.7 --since 2026-11-21T03:11:00Z --until 2026-11-21T03:13:00Z

  # The same from log files of a node that is gone.
  portald tail --ip 10.244.1.7 --since 2026-11-21T03:11:00Z --until 2026-11-21T03:13:00Z \
    --input-file node-2/connections.json --input-file node-2/connections-2026-11-21T04-00-00.000.json.gz`,
	}
	t, f := &tail{}, cmd.Flags()
	cmd.Args = t.args
	f.BoolVarP(&t.follow, "follow", "f", false, "print new records as they come, until Ctrl-C")
	f.IntVar(&t.last, "last", 20, "print the latest `NUMBER` of the past; without the flag all of them with --since, "+
		"--until, --first or --input-file, and none with -f alone")
	f.IntVar(&t.first, "first", 0, "end after this `NUMBER` of records")
	f.StringArrayVar(&t.files, "input-file", nil, "read the connection log `FILE` of format json, - for standard input")
	f.BoolVar(&t.changes, "changes", false, "print what changed too, as portald changes does, in the order of time")
	f.BoolVar(&t.payload, "payload", false, "print what is kept of the payload of connections that ended badly")
	t.addFilters(cmd)
	output := &choice{word: outputCompact, among: []string{outputCompact, outputDict, outputJSON, outputTable}}
	addChoice(cmd, output, "output", "o", "what to print: a line, a paragraph or a JSON object a record, or a table")
	noHeaders := f.Bool("no-headers", false, "print no line of headers")
	t.by = addGroupBy(cmd, "; of all records, unless --last or --first says of how many")
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := t.complete(cmd, output.word); err != nil {
			return err
		}
		if t.follow && dial.many() {
			debug.SetMemoryLimit(followMemory)
		}
		p := newRecordPrinter(dial, output.word, !*noHeaders, t.follow, cmd.OutOrStdout(), cmd.ErrOrStderr())
		if t.by.word != "" {
			p.groups = newGroups(t.by.word)
		}
		read := func() error { return t.fetch(cmd.Context(), dial, p) }
		if t.changes {
			read = func() error { return t.fetchAmong(cmd.Context(), dial, p, output.word == outputJSON) }
		}
		if t.payload {
			dial.More() // client data is not for all who may look
			return Failed(cmd.Context(), t.fetchPayload(cmd.Context(), dial, p, output.word))
		}
		if len(t.files) > 0 {
			read = func() error { return t.readFiles(cmd.Context(), cmd.InOrStdin(), p) }
		}
		err := read()
		if err == nil && p.groups != nil && p.printed {
			l := &listing{output: *output, noHeaders: *noHeaders, color: colored(cmd.OutOrStdout())}
			err = printList(l, cmd.OutOrStdout(), cmd.ErrOrStderr(), p.groups.columns(false), p.groups.rows(0), t.empty())
		}
		if err != nil || p.printed || t.follow {
			return Failed(cmd.Context(), err)
		}
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), t.empty())
		return err
	}
	return cmd
}

// followMemory is what the collector of garbage keeps to while records of many nodes are followed, bytes: it would let
// memory grow to twice what is in use, and 100,000 records a second are 100 MB of garbage. Streams of 200 nodes keep 90
// MB in use when this process is short of CPU: closer to that, collecting takes what CPU there is.
const followMemory = 160 << 20

// complete fills in how many records of the past there are to be, and refuses what cannot be meant.
func (t *tail) complete(cmd *cobra.Command, output string) error {
	given := cmd.Flags().Changed
	t.history = given("since") || given("until")
	if t.payload {
		if err := t.checkPayload(output); err != nil {
			return err
		}
	}
	switch {
	case t.not:
		return usage("--not: reverses the filter after it, and there is none")
	case t.last < 0:
		return usage("--last %d: must be 0 or more", t.last)
	case t.first < 0 || t.first == 0 && given("first"):
		return usage("--first %d: must be 1 or more", t.first)
	case t.follow && len(t.files) > 0:
		return usage("--input-file is read to its end: omit --follow")
	case t.follow && t.by.word != "":
		return usage("--group-by: is of records of the past; omit --follow, or see portald top")
	case t.by.word != "" && given("output") && output != outputTable && output != outputJSON:
		return usage("--group-by: prints a table, or with -o json a list; omit -o %s", output)
	case t.changes && (len(t.files) > 0 || t.by.word != ""):
		return usage("--changes: the daemon has them; omit --input-file and --group-by")
	case t.changes && output != outputCompact && output != outputJSON:
		return usage("--changes: are lines among records; omit -o %s, or use -o json", output)
	case given("last"):
	case t.by.word != "":
		t.last = everything
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
	switch {
	case not:
	case v.key.Name == "since":
		if t, err := connlog.ParseTime(text, v.now); err == nil {
			v.tail.since = t
		}
	case v.key.Name == "service":
		v.tail.services = append(v.tail.services, text)
	case v.key.Name == "namespace":
		v.tail.namespaces = append(v.tail.namespaces, text)
	}
	return v.tail.filter.Add(not, v.key.Name, text, v.now)
}

// fetch prints the records that the flags select, from the daemon.
func (t *tail) fetch(ctx context.Context, dial *Dial, p *recordPrinter) error {
	client := dial.Client()
	defer client.Close()
	count, print := 0, t.limited(p.print)
	told, err := t.read(ctx, client, p, func(l *connlog.Line) error {
		count++
		return print(l)
	})
	switch {
	case errors.Is(err, errEnough):
		return p.flush()
	case err != nil:
		return errors.Join(p.flush(), err)
	case t.follow || told:
		return p.flush()
	}
	return errors.Join(p.flush(), t.forgotten(ctx, client, p, count))
}

// read calls do for the records that the flags select. told: it was said how far back the node's records reach.
func (t *tail) read(
	ctx context.Context, client *adminsocket.Client, p *recordPrinter, do func(*connlog.Line) error,
) (told bool, err error) {
	query := adminsocket.RecordQuery{Filter: t.filter, Last: t.last, Follow: t.follow, History: t.history}
	kept := latest{most: t.last}
	record := do
	if t.history && !t.follow && t.last != everything {
		record = kept.add // of files there may come more
	}
	err = client.ReadRecords(ctx, query, adminsocket.RecordReader{
		Record: record, Gap: p.gap,
		Reach: func(r adminsocket.Reach) error {
			told = true
			return p.reach(&r)
		},
	})
	for _, l := range kept.all() {
		if err == nil {
			err = do(l)
		}
	}
	return told, err
}

// forgotten says from when on the daemon has records, where there may be earlier ones among those that were asked for,
// of which so many were printed.
func (t *tail) forgotten(ctx context.Context, client *adminsocket.Client, p *recordPrinter, printed int) error {
	info, err := client.Info(ctx)
	begin := info.RecordsSince
	enough := t.since.IsZero() && printed >= t.last || !t.since.IsZero() && !t.since.Before(begin)
	if err != nil || enough || begin.IsZero() {
		return err
	}
	why := "it keeps no more"
	if begin.Sub(info.Started).Abs() < time.Second {
		why = "it started then"
	}
	where := "--since reads them from " + printable.Text(info.ConnectionLog) + ", the connection log"
	switch info.ConnectionLog {
	case "":
		where = "without a connection log they are gone"
	case "-":
		where = "they are in the log of its container or unit, where the connection log goes (--input-file -)"
	}
	_, err = fmt.Fprintf(p.errOut, "The daemon's memory has no records from before %s UTC, %s: %s.\n",
		begin.UTC().Format(recordTime), why, where)
	return err
}
