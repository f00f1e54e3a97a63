// Package capturing implements portald capture: packets of connections to Services as a file for Wireshark. The daemon
// captures them; this package orders what one or several daemons send, and writes it.
package capturing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/cmd/portald/inspect/cluster"
	"github.com/portald/portald/proxy/capture"
)

// options are the flags.
type options struct {
	request capture.Request
	size    int64 // megabytes
	file    string
	follow  bool
}

const megabyte = 1_000_000

// Command returns portald capture.
func Command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "capture WHAT... (-w FILE | --follow) [flags]",
		Short: "Capture packets of connections to a Service, a pod or a client, for Wireshark",
		Long: `Capture the packets of connections to Services, as this node receives and sends them on its interfaces: in
userspace mode those between the client and the frontend and those between portald and the endpoint, in the
kernel modes packets before and after translation. Each packet has a comment with the Service, the record of
its connection, the client and the endpoint, so that both sides of a connection are found by its record.
The format is pcapng.

WHAT is a Service ([NAMESPACE/]NAME[:PORT], * for any part), a pod as endpoint or client (pod/NAMESPACE/POD), a
client (client/NAMESPACE/POD, client/ADDRESS), or an address or CIDR of any side. Several are captured together.

With --outcome packets are kept in the daemon's memory until the record of their connection says how it ended;
those of other connections are dropped.

The capture ends at the first of its limits, or at Ctrl-C. It holds data of clients: headers only, unless
--payload is given, and the file is readable by its owner alone. Packets that the kernel or the daemon had no
room for are counted, and the counts are printed.

portald needs the capability NET_RAW for it: capture: true in the values of the Helm chart, or the kustomize
component capture. Linux only.

Exit code 4: this node has no Service, endpoint or frontend of that name.`,
		Example: `  # What do the next connections of a Service look like on both sides?
  portald capture shop/cart -w cart.pcapng

  # Packets of connections that the endpoint reset, with payload.
  portald capture shop/cart --outcome endpoint_reset --payload --duration 10m -w resets.pcapng

  # Watch one client live.
  portald capture client/10.244.1.7 --follow | tshark -i - -o frame.comment.enable:TRUE

  # From the pod of portald on a node into Wireshark.
  kubectl -n kube-system exec daemonset/portald -- portald capture shop/cart --follow | wireshark -k -i -

  # Only resets.
  portald capture shop/cart --filter 'tcp[tcpflags] & tcp-rst != 0' -c 100 -w resets.pcapng`,
		Args: func(_ *cobra.Command, given []string) error {
			if len(given) == 0 {
				return inspect.Usage("capture: an argument is missing: what to capture, a Service, a pod, a client or an " +
					"address, as in \"portald capture shop/cart -w cart.pcapng\"")
			}
			return nil
		},
		ValidArgsFunction: inspect.CompleteServices,
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "write", "w", "", "write `FILE`, which must not exist; - for standard output")
	f.BoolVarP(&o.follow, "follow", "f", false, "write packets to standard output as they come, for another program")
	f.StringSliceVar(&o.request.Outcomes, "outcome", nil, "only of connections that end with this `OUTCOME`, or failed "+
		"for all failures")
	f.StringVar(&o.request.Filter, "filter", "", "only packets that match this `EXPRESSION`, a part of tcpdump's "+
		"language: host, net, port, portrange, src, dst, ip, ip6, tcp, udp, sctp, icmp, icmp6, tcp[tcpflags], less, "+
		"greater, and, or, not")
	f.BoolVar(&o.request.Payload, "payload", false, "with the payload, not only the headers")
	f.Int64VarP(&o.request.Packets, "count", "c", 100_000, "end after this `NUMBER` of packets")
	f.DurationVar(&o.request.Duration, "duration", time.Minute, "end after this `TIME`, an hour at most")
	f.Int64Var(&o.size, "max-size", 64, "end after this number of `MEGABYTES` of packets, 1000 at most")
	cmd.MarkFlagsOneRequired("write", "follow")
	cmd.MarkFlagsMutuallyExclusive("write", "follow")
	dial := inspect.AddSocket(cmd)
	dial.More() // client data is not for all who may look
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.request.Targets, o.request.Bytes = args, o.size*megabyte
		if err := o.request.Check(); err != nil {
			return inspect.Usage("capture: %w", err)
		}
		if (o.follow || o.file == "-") && inspect.OnTerminal(cmd.OutOrStdout()) {
			return inspect.Usage("capture: standard output is a terminal: write a file (-w), or give it to another " +
				"program (| tshark -i -)")
		}
		nodes, err := dial.Nodes(cmd.Context())
		if err == nil {
			defer closeAll(nodes)
			nodes, err = named(cmd.Context(), nodes)
		}
		if err != nil {
			return inspect.Failed(cmd.Context(), err)
		}
		return inspect.Failed(cmd.Context(), o.run(cmd.Context(), nodes, cmd.OutOrStdout(), cmd.ErrOrStderr()))
	}
	return inspect.ReadOnly(cmd)
}

// named asks the daemon of this host, the only one without a name, for it.
func named(ctx context.Context, nodes []cluster.Node) ([]cluster.Node, error) {
	if len(nodes) != 1 || nodes[0].Name != "" {
		return nodes, nil
	}
	info, err := nodes[0].Client.Info(ctx)
	nodes[0].Name = info.Node
	return nodes, err
}

func closeAll(nodes []cluster.Node) {
	for _, n := range nodes {
		n.Client.Close()
	}
}

// run captures of all nodes at once.
func (o *options) run(ctx context.Context, nodes []cluster.Node, out, errOut io.Writer) (failed error) {
	if !o.follow && o.file != "-" {
		created, err := o.create()
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, o.close(created)) }()
		out = created
	}
	to, err := newFile(out, o.request.Packets)
	if err != nil {
		return err
	}
	m := newMerger(to, !o.follow, int(o.request.Bytes)*len(nodes),
		func() { fmt.Fprintln(errOut, o.about()) })
	why := captureAll(ctx, m, nodes, &o.request)
	if why != nil && to.packets == 0 && len(m.queue) == 0 {
		return why
	}
	err = m.finish()
	if err == nil || errors.Is(err, errEnough) {
		err = to.finish()
	}
	if errors.Is(err, syscall.EPIPE) { // who reads has enough
		err = nil
	}
	if err == nil && why == nil || to.packets > 0 || ctx.Err() != nil {
		o.said(errOut, to, m)
	}
	return errors.Join(err, why)
}

// create creates the file, which is for its owner alone, and takes the place of no other.
func (o *options) create() (*os.File, error) {
	created, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	return created, nil
}

// close closes the file, and removes it if it is empty: nothing could be captured.
func (o *options) close(created *os.File) error {
	info, err := created.Stat()
	err = errors.Join(err, created.Close())
	if err == nil && info.Size() == 0 {
		err = os.Remove(o.file)
	}
	return err
}

// captureAll reads the captures of all nodes until the last is over.
func captureAll(ctx context.Context, m *merger, nodes []cluster.Node, r *capture.Request) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	streams := make([]*stream, len(nodes))
	for i, n := range nodes {
		streams[i] = m.stream(n.Name)
	}
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() {
			err := errors.Join(n.Client.Capture(ctx, *r, streams[i]), streams[i].leave())
			switch {
			case errors.Is(err, errEnough), errors.Is(err, syscall.EPIPE):
				cancel() // nobody needs more
			case err != nil && ctx.Err() == nil && len(nodes) > 1:
				errs[i] = fmt.Errorf("node %s: %w", n.Name, err)
			case err != nil && ctx.Err() == nil:
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// about says what is captured.
func (o *options) about() string {
	holds := "headers only: addresses and ports of clients"
	if o.request.Payload {
		holds = "with the payload: DATA OF CLIENTS, passwords and tokens among it"
	}
	return fmt.Sprintf("Capturing %s, %s. It ends after %d packets, %d MB or %v, or at Ctrl-C.",
		strings.Join(o.request.Targets, ", "), holds, o.request.Packets, o.size, o.request.Duration)
}

// said says what was captured, and what was not.
func (o *options) said(errOut io.Writer, to *file, m *merger) {
	fmt.Fprintf(errOut, "Captured %d packets of %d interfaces.\n", to.packets, len(to.order))
	for _, s := range m.streams {
		why := "it was ended"
		if s.end != nil {
			why = s.end.Why
		}
		node := ""
		if len(m.streams) > 1 {
			node = s.node + ": "
		}
		fmt.Fprintf(errOut, "%sThe capture is over, because %s; %s.\n", node, why, dropped(s.statistics()))
	}
}
