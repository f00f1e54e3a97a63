package inspect

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect/cluster"
	"github.com/portald/portald/cmd/portald/inspect/merge"
	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
)

// inCluster is how a command reaches the daemons of a cluster.
type inCluster struct {
	all       bool     // nodes
	nodes     []string // these alone
	namespace string   // of portald's pods
	wait      time.Duration
	waitGiven func() bool // by the flag
	readOnly  func() bool // nothing is to be changed

	flags  cluster.Flags
	errOut func() io.Writer // standard error of the command, which is known when it runs

	once  sync.Once
	found []cluster.Node
	err   error

	mu   sync.Mutex
	told map[string]string // by node, the error that was said last; guarded by mu
}

// add gives a command the flags.
func (c *inCluster) add(cmd *cobra.Command) {
	c.errOut, c.told = cmd.ErrOrStderr, map[string]string{}
	c.readOnly = func() bool { return cmd.GroupID == GroupReadOnly }
	f := cmd.Flags()
	f.BoolVar(&c.all, "all-nodes", false, "ask the portald of each node of the cluster, through the API server")
	f.StringSliceVar(&c.nodes, "on-node", nil, "ask the portald of this `NODE` alone, through the API server; or of "+
		"the node of a pod, NAMESPACE/POD, or of a pod's address")
	f.StringVar(&c.namespace, "portald-namespace", "", "the `NAMESPACE` of portald's pods; default: any")
	f.DurationVar(&c.wait, "node-timeout", merge.DefaultWait, "how long a node may say nothing before it is left out, a "+
		"`TIME`; explain: 30s by default")
	c.waitGiven = func() bool { return f.Changed("node-timeout") }
	c.flags.AddTo(f)
}

// wanted tells whether a cluster is asked, and not the daemon of this host.
func (c *inCluster) wanted() bool { return c.all || len(c.nodes) > 0 }

// find returns the nodes, which it looks up once. Nodes without portald are said.
func (c *inCluster) find(ctx context.Context) ([]cluster.Node, error) {
	c.once.Do(func() {
		var without []string
		c.found, without, c.err = c.look(ctx)
		if c.err == nil && len(without) > 0 {
			fmt.Fprintf(c.errOut(), "No pod of portald runs on %s.\n", printable.Text(strings.Join(without, ", ")))
		}
	})
	return c.found, c.err
}

func (c *inCluster) look(ctx context.Context) (nodes []cluster.Node, without []string, err error) {
	config, err := c.flags.Config()
	if err != nil {
		return nil, nil, err
	}
	return cluster.Find(ctx, cluster.Options{
		Config: config, Namespace: c.namespace, Nodes: c.nodes, ReadOnly: c.readOnly(),
	})
}

// list lists the nodes again.
func (c *inCluster) list(ctx context.Context) ([]merge.Node, error) {
	nodes, _, err := c.look(ctx)
	return toMerge(nodes), err
}

// dialAll connects to the API of all nodes.
func (d *Dial) dialAll() func(context.Context) (net.Conn, error) {
	var mu sync.Mutex
	var dial func(context.Context) (net.Conn, error)
	return func(ctx context.Context) (net.Conn, error) {
		mu.Lock()
		if dial == nil {
			nodes, err := d.Nodes(ctx)
			if err != nil {
				mu.Unlock()
				return nil, err
			}
			o := merge.Options{Failed: d.cluster.failed, Resumed: d.cluster.resumed, Wait: d.cluster.wait}
			if d.cluster.all && len(d.cluster.nodes) == 0 {
				o.List = d.cluster.list
			}
			dial = merge.Dialer(toMerge(nodes), o)
		}
		mu.Unlock()
		return dial(ctx)
	}
}

func toMerge(nodes []cluster.Node) (all []merge.Node) {
	for _, n := range nodes {
		all = append(all, merge.Node{Name: n.Name, Client: n.Client})
	}
	return all
}

// failed says, once, that a node is left out, and why.
func (c *inCluster) failed(node string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told[node] == err.Error() {
		return
	}
	c.told[node] = err.Error()
	fmt.Fprintf(c.errOut(), "%s is left out: %s\n", printable.Text(node), printable.Text(err.Error()))
}

// resumed says that a node that was left out is followed again.
func (c *inCluster) resumed(r merge.Resumption) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.told, r.Node)
	missing := ""
	if !r.To.IsZero() {
		missing = fmt.Sprintf("; records of connections that ended from %s to %s UTC may be missing",
			r.From.UTC().Format(recordTime), r.To.UTC().Format(recordTime))
	}
	fmt.Fprintf(c.errOut(), "%s answers again%s\n", printable.Text(r.Node), missing)
}

// many tells whether rows are of several nodes, and so have a column for it.
func (d *Dial) many() bool { return d.cluster.wanted() || strings.Contains(d.socket, "=") }

// Many is many, for commands of other packages.
func (d *Dial) Many() bool { return d.many() }

// More lets requests pass that more than look, and takes the rights of an operator, though the command changes nothing.
func (d *Dial) More() { d.cluster.readOnly = func() bool { return false } }

// HoldMessages keeps what is said of nodes until the function that it returns is called: a command has the screen.
func (d *Dial) HoldMessages() (release func()) {
	c := &d.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	to, held := c.errOut, &bytes.Buffer{}
	c.errOut = func() io.Writer { return held }
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errOut = to
		_, _ = held.WriteTo(to()) // nobody is there who could be told
	}
}

// LeftOut says, once, that a node is left out, and why.
func (d *Dial) LeftOut(node string, err error) { d.cluster.failed(node, err) }

// Nodes returns the daemons that are asked, each by itself: those of the cluster, or the one of this host, whose name
// is empty.
func (d *Dial) Nodes(ctx context.Context) ([]cluster.Node, error) {
	switch {
	case d.cluster.wanted():
		return d.cluster.find(ctx)
	case d.many():
		return d.ofThisHost()
	}
	return []cluster.Node{{Client: adminsocket.NewClient(d.socket)}}, nil
}

// ofThisHost returns several daemons of this host: one that replaces another service proxy and one beside it, or those
// of a test.
func (d *Dial) ofThisHost() (nodes []cluster.Node, err error) {
	for one := range strings.SplitSeq(d.socket, ",") {
		name, path, ok := strings.Cut(one, "=")
		if !ok || name == "" || path == "" {
			return nil, usage("--socket %s: must be a path, or NODE=PATH for each of several", d.socket)
		}
		nodes = append(nodes, cluster.Node{Name: name, Client: adminsocket.NewClient(path)})
	}
	return nodes, nil
}

// NodeTimeout is how long a node may take for its answer.
func (d *Dial) NodeTimeout() time.Duration { return d.cluster.wait }

// onlyNode is the name of the node that is asked if it is one: ids of connections are its.
func (d *Dial) onlyNode(ctx context.Context) (string, error) {
	nodes, err := d.Nodes(ctx)
	if err != nil || len(nodes) != 1 {
		return "", err
	}
	return nodes[0].Name, nil
}

// ForCluster has a command ask all nodes unless a flag names some: what kubectl portald is.
func ForCluster(cmd *cobra.Command) {
	all, socket := cmd.Flags().Lookup("all-nodes"), cmd.Flags().Lookup("socket")
	if all == nil || socket == nil {
		return
	}
	all.DefValue, all.Hidden, socket.Hidden = "true", true, true
	_ = all.Value.Set("true") // it is a value
}
