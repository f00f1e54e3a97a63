package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/platform/printable"
)

// listing is how a command prints a table.
type listing struct {
	output    choice
	sort      choice
	noHeaders bool
	watch     bool
	interval  time.Duration

	color bool // the output is printed in colours
}

// The outputs of a listing.
const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
	outputText  = "text" // of what is no table
)

// addListing gives a command the flags of a listing, which is sorted by the first of these orders if none is asked for.
func addListing(cmd *cobra.Command, orders ...string) *listing {
	l := &listing{
		output: choice{outputTable, []string{outputTable, outputWide, outputJSON, outputYAML, asJSONPath}, checkOutput},
		sort:   choice{word: orders[0], among: orders},
	}
	addChoice(cmd, &l.output, "output", "o", "what to print: a table, one with all columns, a list as JSON or YAML, or "+
		"what a template such as jsonpath='{[*].client}' takes from it")
	addChoice(cmd, &l.sort, "sort", "", "sort by this, the largest or oldest first")
	cmd.Flags().BoolVar(&l.noHeaders, "no-headers", false, "print no header line")
	cmd.Flags().BoolVarP(&l.watch, "watch", "w", false, "refresh the list until Ctrl-C")
	cmd.Flags().DurationVar(&l.interval, "interval", 2*time.Second, "`TIME` between two refreshes of --watch")
	return l
}

// run prints a list once, or with --watch until the context ends. On a terminal each list takes the place of the one
// before.
func (l *listing) run(ctx context.Context, out io.Writer, print func(io.Writer) error) error {
	l.color = colored(out)
	if !l.watch {
		return print(out)
	}
	if l.interval < 100*time.Millisecond {
		return usage("--interval %s: must be 100ms or more", l.interval)
	}
	tick := time.NewTicker(l.interval)
	defer tick.Stop()
	for w := newWatcher(out); ; {
		err := w.show(print)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// listTable returns an empty table of the columns that the listing has.
func listTable[T any](l *listing, columns []column[T]) *table[T] {
	t := newTable(columns, l.output.word == outputWide)
	t.color = l.color
	return t
}

// printTable prints a table; empty is said in place of one without rows, on errOut, so that it is no row of the output.
func printTable[T any](l *listing, t *table[T], out, errOut io.Writer, empty string) error {
	if t.rows() > 0 {
		return t.flush(out, !l.noHeaders)
	}
	if l.watch {
		errOut = out
	}
	_, err := fmt.Fprintln(errOut, empty)
	return err
}

// printList prints rows as the listing says.
func printList[T any](l *listing, out, errOut io.Writer, columns []column[T], rows []T, empty string) error {
	if structured(l.output.word) {
		return encode(out, l.output.word, func(out io.Writer) error { return printJSON(out, rows) })
	}
	t := listTable(l, columns)
	for i := range rows {
		t.add(&rows[i])
	}
	return printTable(l, t, out, errOut, empty)
}

// printJSON prints rows as a JSON list.
func printJSON[T any](out io.Writer, rows []T) error {
	j := newJSONList(out)
	for i := range rows {
		row, err := json.Marshal(&rows[i])
		if err != nil {
			return fmt.Errorf("encode row %d: %w", i, err)
		}
		if err := j.add(row); err != nil {
			return err
		}
	}
	return j.end()
}

// jsonList prints a JSON list, a row a line.
type jsonList struct {
	out     *bufio.Writer
	hasRows bool
}

func newJSONList(out io.Writer) *jsonList { return &jsonList{out: bufio.NewWriterSize(out, 64<<10)} }

func (j *jsonList) add(row []byte) error {
	before := "[\n"
	if j.hasRows {
		before = ",\n"
	}
	j.hasRows = true
	j.out.WriteString(before) // the next write fails too
	_, err := j.out.Write(printable.JSON(row))
	return err
}

func (j *jsonList) end() error {
	if j.hasRows {
		j.out.WriteString("\n]\n")
	} else {
		j.out.WriteString("[]\n")
	}
	return j.out.Flush()
}
