package config

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/portald/portald/platform/printable"
)

// Check writes how a configuration file is understood: each field in it, its value with defaults filled in, and its
// effect; then warnings and mistakes. It returns what the daemon would be configured with; an error means that the
// daemon would refuse the file.
func Check(path string, out io.Writer) (*Config, error) { return checkFor(runtime.GOOS, path, out) }

// checkFor is Check for the daemon on a system.
func checkFor(system, path string, out io.Writer) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("check configuration: %w", err)
	}
	d := newDraft(system)
	d.use(load(path, text))
	d.setDefaults()
	d.check()
	d.warnOfMode()
	if err := d.report(out); err != nil {
		return nil, fmt.Errorf("check configuration: %w", err)
	}
	if n := len(d.errs); n > 0 {
		return nil, fmt.Errorf("%s is refused; mistakes in it: %d", path, n)
	}
	return d.config(), nil
}

func (d *draft) report(out io.Writer) error {
	var text strings.Builder // which may have anything that is in the file
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	for _, which := range []doc{kubeProxy, portald} {
		if d.file.has(which) {
			fmt.Fprintf(table, "%s\n\nFIELD\tVALUE\tEFFECT\n", d.file.where(which))
			d.reportFields(table, which)
			fmt.Fprintln(table)
		}
	}
	for _, w := range d.warnings {
		fmt.Fprintf(table, "warning: %s\n", strings.TrimPrefix(w, d.file.path+": "))
	}
	for _, err := range d.errs {
		fmt.Fprintf(table, "refused: %s\n", strings.TrimPrefix(err.Error(), d.file.path+": "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, printable.Lines(text.String()))
	return err
}

// reportFields writes a line for each field of a document that is in the file.
func (d *draft) reportFields(table io.Writer, which doc) {
	for _, s := range settings() {
		value, written := d.file.written[which][s.path]
		if s.doc != which || !written {
			continue
		}
		if field := d.at(s); field.IsValid() {
			value = field.Interface()
		}
		note := ""
		if d.isDefault(s, value) {
			note = " (default)"
		}
		fmt.Fprintf(table, "%s\t%s%s\t%s\n", s.path, shown(value), note, d.effectOf(s))
	}
}
