package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
)

// file is one of the archive.
type file struct {
	name, about string
	text        []byte
	note        string // that it is not all, or how the command that printed it ended; empty: nothing to say
}

// missing is a part that could not be had.
type missing struct{ what, why string }

// collection has the files of a report.
type collection struct {
	socket, version string
	client          *adminsocket.Client
	made            time.Time

	files    []file
	missing  []missing
	size     int // of all files
	redacted bool
}

func newCollection(dial *inspect.Dial, version string, now time.Time) *collection {
	return &collection{socket: dial.Socket(), client: dial.Client(), version: version, made: now}
}

// add has a file made within the time of a part. What was printed before an error is kept, with the error as its note.
func (c *collection) add(ctx context.Context, name, about string, make func(context.Context, io.Writer) error) {
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	out := &bounded{room: min(maxFile, maxAll-c.size)}
	err := make(ctx, out)
	if err == nil {
		err = ctx.Err()
	}
	if len(out.kept) == 0 {
		if out.left > 0 {
			err = fmt.Errorf("the report has %d bytes without it, and is not to have more", c.size)
		}
		if err != nil {
			c.missing = append(c.missing, missing{name, err.Error()})
			return
		}
		if path.Ext(name) == ".txt" {
			out.kept = []byte("None.\n")
		}
	}
	f := file{name: name, about: about, text: out.kept}
	switch {
	case out.left > 0:
		f.note = fmt.Sprintf("%d bytes at its end are left out", out.left)
	case err != nil:
		f.note = "ended with: " + err.Error()
	}
	c.files = append(c.files, f)
	c.size += len(f.text)
}

// run adds what a command of portald prints.
func (c *collection) run(ctx context.Context, name, about string, line ...string) {
	about += " (portald " + strings.Join(line, " ") + ")"
	c.add(ctx, name, about, func(ctx context.Context, out io.Writer) error {
		cmd := command(line[0])
		cmd.SetArgs(append(line[1:], "--socket", c.socket))
		cmd.SetOut(out)
		cmd.SetErr(io.Discard)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		return cmd.ExecuteContext(ctx)
	})
}

func command(name string) *cobra.Command {
	for _, cmd := range inspect.Commands() {
		if cmd.Name() == name {
			return cmd
		}
	}
	panic("portald has no command " + name)
}

// get adds what the admin API answers.
func (c *collection) get(ctx context.Context, name, about, path string) {
	c.add(ctx, name, about, func(ctx context.Context, out io.Writer) error {
		return c.client.Copy(ctx, path, out)
	})
}

// bounded is a buffer that keeps so many bytes, and counts the others.
type bounded struct {
	kept       []byte
	room, left int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), max(0, b.room-len(b.kept)))
	b.left += len(p) - n
	b.kept = append(b.kept, p[:n]...)
	return len(p), nil
}

// archive writes the files, below one folder, the index first.
func (c *collection) archive(to io.Writer) error {
	z := gzip.NewWriter(to)
	t := tar.NewWriter(z)
	folder := "portald-report-" + c.made.Format("20060102-150405")
	for _, f := range append([]file{{name: "README.txt", text: c.index()}}, c.files...) {
		h := &tar.Header{Name: path.Join(folder, f.name), Mode: 0o600, Size: int64(len(f.text)), ModTime: c.made}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.text); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// index is the README of the archive.
func (c *collection) index() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "A report of portald on one node, made %s by portald %s.\n", c.made.Format(time.RFC3339), c.version)
	if c.redacted {
		b.WriteString("Addresses and names are replaced by hashes: the same one has the same hash in this report.\n")
	}
	b.WriteString("\nFiles:\n")
	for _, f := range c.files {
		fmt.Fprintf(&b, "  %-24s %s\n", f.name, printable.Text(f.about))
		if f.note != "" {
			fmt.Fprintf(&b, "  %-24s   %s\n", "", printable.Text(f.note))
		}
	}
	b.WriteString("\nNot in it, and why:\n")
	for _, m := range c.missing {
		fmt.Fprintf(&b, "  %-24s %s\n", m.what, printable.Text(m.why))
	}
	if len(c.missing) == 0 {
		b.WriteString("  nothing is missing\n")
	}
	return b.Bytes()
}

// summary says what was written.
func (c *collection) summary(to io.Writer, name string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %d files.\n", printable.Text(name), len(c.files)+1)
	for i, m := range c.missing {
		same := func(o missing) bool { return o.why == m.why }
		if slices.IndexFunc(c.missing, same) < i {
			continue // it was told with the first of the same reason
		}
		var whats []string
		for _, o := range c.missing {
			if same(o) {
				whats = append(whats, o.what)
			}
		}
		fmt.Fprintf(&b, "Not in it: %s: %s\n", strings.Join(whats, ", "), printable.Text(m.why))
	}
	_, err := to.Write(b.Bytes())
	return err
}
