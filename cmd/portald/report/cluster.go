package report

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/cmd/portald/inspect/cluster"
)

// writeNodes writes an archive with the report of each node, which the node's pod makes.
func writeNodes(cmd *cobra.Command, dial *inspect.Dial, name string, redacted bool, now time.Time) error {
	nodes, err := dial.Nodes(cmd.Context())
	if err != nil {
		return inspect.Failed(cmd.Context(), err)
	}
	args := []string{"report", "--output=-"}
	if redacted {
		args = append(args, "--redact")
	}
	n := 0
	err = writeTo(cmd, name, func(ctx context.Context, to io.Writer) error {
		all := tar.NewWriter(to)
		for _, some := range chunks(nodes) { // each may have 64 MB: they are not all in memory at a time
			reports := cluster.Each(ctx, some, maxTime, func(ctx context.Context, n *cluster.Node) ([]byte, error) {
				var out bytes.Buffer
				err := n.Run(ctx, args, &out)
				return out.Bytes(), err
			}, dial.LeftOut)
			for i, text := range reports {
				if len(text) == 0 {
					continue
				}
				n++
				h := &tar.Header{Typeflag: tar.TypeReg, Name: some[i].Name + ".tar.gz", Size: int64(len(text)), Mode: 0o600,
					ModTime: now}
				if err := all.WriteHeader(h); err != nil {
					return err
				}
				if _, err := all.Write(text); err != nil {
					return err
				}
			}
		}
		return all.Close()
	})
	if err == nil && n == 0 {
		err = errors.New("report: no node has made one")
	}
	if err != nil {
		return err
	}
	where, to := cmd.OutOrStdout(), name
	if name == "-" {
		where, to = cmd.ErrOrStderr(), "standard output"
	}
	_, err = fmt.Fprintf(where, "%s: the reports of %d of %d nodes, each an archive.\n", to, n, len(nodes))
	return err
}

// chunks divides nodes into groups that make their reports at the same time.
func chunks(nodes []cluster.Node) (all [][]cluster.Node) {
	const size = 8
	for len(nodes) > size {
		all, nodes = append(all, nodes[:size]), nodes[size:]
	}
	return append(all, nodes)
}
