package ui

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/proxy/httpserver"
	"github.com/portald/portald/proxy/webui"
)

// Command returns portald ui.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ui [--listen ADDRESS:PORT] [--no-browser]",
		Short: "Serve a page for a browser with Services, connections, failures and changes",
		Long: `Serve a page for a browser on this host: Services with their rates, failures and retries, the endpoints of one
side by side, open connections, how connections failed and what changed meanwhile, and why. The page only looks.

The command prints the page's address, and opens it if there is a browser. Only who knows the token in it can
read, and it ends with the command. The page is served on loopback alone, and needs nothing of other hosts; for
the browser of another host, tunnel the port by ssh -L. Of a cluster it shows the nodes that have a portald when
the command starts.`,
		Example: `  # All nodes, on the computer where kubectl is.
  kubectl portald ui

  # On the node, for the browser of another host: there, ssh -L 8899:127.0.0.1:8899 NODE
  portald ui --listen 127.0.0.1:8899 --no-browser`,
		Args: inspect.FlagsOnly,
	}
	listen := cmd.Flags().String("listen", "127.0.0.1:0", "the loopback `ADDRESS:PORT` to serve at; port 0: any")
	noBrowser := cmd.Flags().Bool("no-browser", false, "open no browser")
	dial := inspect.AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := netip.ParseAddrPort(*listen)
		if err != nil || !at.Addr().Unmap().IsLoopback() {
			return inspect.Usage("--listen %s: must be a loopback address and a port, such as 127.0.0.1:0 or [::1]:8899",
				*listen)
		}
		nodes, err := nodesOf(cmd.Context(), dial)
		if err != nil {
			return inspect.Failed(cmd.Context(), err)
		}
		s := &server{out: cmd.OutOrStdout(), browse: !*noBrowser, wait: dial.NodeTimeout()}
		return s.run(cmd.Context(), at, nodes)
	}
	return inspect.ReadOnly(cmd)
}

// nodesOf returns the nodes that are asked. If it is this one alone, it must answer.
func nodesOf(ctx context.Context, dial *inspect.Dial) (nodes []webui.Node, err error) {
	found, err := dial.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range found {
		nodes = append(nodes, webui.Node{Name: n.Name, Client: n.Client})
	}
	if len(nodes) == 1 {
		_, err = nodes[0].Client.Info(ctx)
	}
	return nodes, err
}

// server is the command while it runs.
type server struct {
	out    io.Writer
	browse bool
	wait   time.Duration // for a node's answer
}

// run serves the page until ctx ends.
func (s *server) run(ctx context.Context, at netip.AddrPort, nodes []webui.Node) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.String())
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	page, token := webui.New(nodes, s.wait), rand.Text()
	var wg sync.WaitGroup
	wg.Go(func() { page.Watch(ctx) })
	defer wg.Wait()
	defer cancel()
	address := fmt.Sprintf("http://%s/#token=%s", l.Addr(), token)
	if _, err := fmt.Fprintf(s.out, "%s\nCtrl-C ends it.\n", address); err != nil {
		return err
	}
	if s.browse {
		defer openBrowser(address)()
	}
	log := logrus.New()
	log.SetOutput(io.Discard) // of its clients anybody on this host may be one
	return httpserver.New(httpserver.Options{
		Name: "ui", Address: at.String(), HardFail: true, Log: log,
		Listen: func(context.Context, string, string) (net.Listener, error) { return l, nil },
	}, webui.Guard(token, page)).Run(ctx)
}
