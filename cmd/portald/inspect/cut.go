package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/proxy/adminsocket"
)

func cutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cut ID... | cut --service NAME [flags]",
		Short: "Reset open connections, by id or by filter",
		Long: `Reset open connections and UDP sessions of userspace mode on both sides. Their records have the outcome cut.
Name them by their ids, as "portald conns" and "portald tail" print them, or choose them with flags. The
command lists what the flags match and asks before it cuts; --yes answers for a script.

portald cannot cut connections that the kernel carries.

Exit code 4: no open connection has one of the ids, or nothing matches; the other ids are cut nevertheless.`,
		Example: `  # Cut two connections.
  portald cut 1041 1043

  # Cut what has been idle for an hour, without asking.
  portald cut --service shop/cart --idle 1h --yes`,
		ValidArgsFunction: completeArgs(completeIDs()),
	}
	chosen := addSelection(cmd)
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := cutter{dial: dial, client: dial.Client(), in: cmd.InOrStdin(), out: cmd.OutOrStdout(), yes: *yes,
			interactive: terminal(cmd.InOrStdin()) != nil}
		defer c.client.Close()
		switch {
		case len(args) > 0 && chosen.any():
			return usage("cut: name ids, or choose by flags, not both")
		case len(args) > 0:
			return Failed(cmd.Context(), c.named(cmd.Context(), args))
		case !chosen.any():
			return usage("cut: name the ids of connections, or choose some by flags; see portald conns")
		}
		return Failed(cmd.Context(), c.chosen(cmd.Context(), chosen))
	}
	return cmd
}

// cutter cuts connections.
type cutter struct {
	dial        *Dial
	client      *adminsocket.Client
	in          io.Reader
	out         io.Writer
	interactive bool // in is a terminal
	yes         bool
}

// named cuts the connections of these ids.
func (c *cutter) named(ctx context.Context, args []string) error {
	ids := make([]uint64, 0, len(args))
	for _, arg := range args {
		id, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || id == 0 {
			return usage("cut %q: must be the id of a connection, as in the column ID of portald conns", arg)
		}
		ids = append(ids, id)
	}
	node, err := c.dial.onlyNode(ctx)
	if err != nil {
		return err
	}
	return c.cut(ctx, node, ids)
}

// chosen cuts what the flags choose, once that is confirmed.
func (c *cutter) chosen(ctx context.Context, chosen *selection) error {
	rows, err := c.client.Connections(ctx, chosen.query())
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(c adminsocket.Connection) bool { return c.ID == 0 || c.CarriedBy == "kernel" })
	if len(rows) == 0 {
		return nothing("cut: %s", chosen.empty("connections of userspace mode", chosen.filtered()))
	}
	if ok, err := c.confirm(rows); !ok {
		return err
	}
	ids := map[string][]uint64{}
	for i := range rows {
		ids[rows[i].PortaldNode] = append(ids[rows[i].PortaldNode], rows[i].ID)
	}
	for _, node := range slices.Sorted(maps.Keys(ids)) {
		if err := c.cut(ctx, node, ids[node]); err != nil {
			return err
		}
	}
	return nil
}

// shown is how many connections a question shows.
const shown = 10

// confirm asks whether to cut what was chosen.
func (c *cutter) confirm(rows []adminsocket.Connection) (bool, error) {
	if c.yes {
		return true, nil
	}
	if !c.interactive {
		return false, usage("cut: %d connections match; --yes cuts them", len(rows))
	}
	t := newTable(connColumns(c.dial, time.Now()), false)
	for i := range rows[:min(shown, len(rows))] {
		t.add(&rows[i])
	}
	if err := t.flush(c.out, true); err != nil {
		return false, err
	}
	if more := len(rows) - shown; more > 0 {
		fmt.Fprintf(c.out, "... and %d more\n", more)
	}
	fmt.Fprintf(c.out, "Cut %s? [y/N] ", counted(len(rows), "connection"))
	answer, err := bufio.NewReader(c.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// batch is how many ids one request has, which is bounded.
const batch = 10_000

// cut cuts connections of a node, empty: the only one that is asked.
func (c *cutter) cut(ctx context.Context, node string, ids []uint64) error {
	done, missing := 0, []string{}
	for some := range slices.Chunk(ids, batch) {
		answer, err := c.client.CutOn(ctx, node, some...)
		if err != nil {
			return err
		}
		done += len(answer.Cut)
		for _, id := range answer.Missing {
			missing = append(missing, strconv.FormatUint(id, 10))
		}
	}
	if done > 0 {
		fmt.Fprintf(c.out, "Cut %s%s\n", counted(done, "connection"), onNode(node))
	}
	if len(missing) > 0 {
		return nothing("cut %s: no connection of userspace mode is open by that id", strings.Join(missing, ", "))
	}
	return nil
}
