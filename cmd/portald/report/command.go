// Package report implements portald report: an archive with what is known of this node and of the portald that runs on
// it, to be attached to a ticket. It collects what other commands print and the admin API returns; what cannot be had
// is named in the archive.
package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect"
)

// The bounds of a report.
const (
	maxTime  = time.Minute      // of all parts
	partTime = 15 * time.Second // of one
	maxFile  = 8 << 20          // bytes of one file, before it is compressed
	maxAll   = 64 << 20         // of all files
)

// Command returns portald report, of a portald of this version.
func Command(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report [-o FILE.tar.gz] [--redact]",
		Short: "Write an archive with all that is known of this node, for a ticket",
		Long: `Write an archive with what the other commands print of this node: what doctor found, Services and endpoints,
an explanation of each Service that has a problem, the last changes, the last records that failed, metrics, the
configuration that is in force, and the versions of portald, the kernel and its tools. README.txt in the archive
says what each file is, and what could not be had: without a running portald that is most.

Secrets of the configuration are never in it. With --redact addresses, and the names of Services, namespaces,
pods, nodes and zones, are replaced by hashes: within a report the same name has the same hash, and in the next
report another. Names that every cluster has, such as kube-system, and names of ports stay. The command takes a
minute at most, and the archive has 64 MiB at most before it is compressed. Read it before you publish it.`,
		Example: `  # On the node.
  portald report

  # From the pod of portald, whose file system cannot be written.
  kubectl -n kube-system exec daemonset/portald -- portald report --redact -o - > report.tar.gz`,
		Args: inspect.FlagsOnly,
	}
	file := cmd.Flags().StringP("output", "o", "", "the `FILE` to write, which must not exist, - for standard output; "+
		"default: portald-report-TIME.tar.gz, here")
	redacted := cmd.Flags().Bool("redact", false, "replace addresses and names by hashes")
	dial := inspect.AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		now := time.Now().UTC()
		name := *file
		switch {
		case dial.Many() && name == "":
			name = "portald-report-" + now.Format("20060102-150405") + ".tar"
		case cmd.Flags().Changed("output") && name == "":
			return inspect.Usage("--output: must be a file, or - for standard output")
		case name == "":
			name = "portald-report-" + now.Format("20060102-150405") + ".tar.gz"
		case name == "-" && inspect.OnTerminal(cmd.OutOrStdout()):
			return inspect.Usage("--output -: is an archive, and standard output a terminal: redirect it, or name a file")
		}
		if dial.Many() {
			return writeNodes(cmd, dial, name, *redacted, now)
		}
		return write(cmd, name, func(ctx context.Context, to io.Writer) (*collection, error) {
			c := newCollection(dial, version, now)
			defer c.client.Close()
			c.collect(ctx)
			if *redacted {
				c.redact()
			}
			return c, c.archive(to)
		})
	}
	return inspect.ReadOnly(cmd)
}

// write has a report made, into a file of its user alone, and says what it has and lacks. It overwrites none. The
// file is there first, so that nobody waits in vain.
func write(cmd *cobra.Command, name string, make func(context.Context, io.Writer) (*collection, error)) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), maxTime)
	defer cancel()
	var c *collection
	err := writeTo(cmd, name, func(_ context.Context, to io.Writer) (err error) {
		c, err = make(ctx, to)
		return err
	})
	switch {
	case err != nil:
		return err
	case name == "-":
		return c.summary(cmd.ErrOrStderr(), "standard output")
	}
	return c.summary(cmd.OutOrStdout(), name)
}

// writeTo has a file of its user alone written, or standard output. It overwrites none, and leaves none behind that is
// not whole.
func writeTo(cmd *cobra.Command, name string, make func(context.Context, io.Writer) error) error {
	if name == "-" {
		return make(cmd.Context(), cmd.OutOrStdout())
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("report: %s exists, and is not overwritten: remove it, or name another file by -o", name)
	}
	if err != nil {
		return fmt.Errorf("report: %w; -o names another file, - standard output", err)
	}
	err = make(cmd.Context(), f)
	if err = errors.Join(err, f.Close(), cmd.Context().Err()); err != nil {
		return errors.Join(fmt.Errorf("report: write %s: %w", name, err), os.Remove(name))
	}
	return nil
}
