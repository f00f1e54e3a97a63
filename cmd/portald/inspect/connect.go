package inspect

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/portald/portald/proxy/adminsocket"
)

// Dial is how a command reaches the daemon of this host, or those of a cluster.
type Dial struct {
	socket  string
	cluster inCluster
}

// AddSocket gives a command the flags that say which daemons it asks, after its own flags.
func AddSocket(cmd *cobra.Command) *Dial {
	d := &Dial{}
	d.cluster.add(cmd)
	cmd.Flags().StringVar(&d.socket, "socket", adminsocket.DefaultSocket, "the daemon's --admin-socket, a `PATH`; "+
		"NODE=PATH, with a comma between, of several on this host")
	return d
}

// Socket is the path of the socket.
func (d *Dial) Socket() string { return d.socket }

// Client returns a client of the daemon, or of all nodes as if they were one daemon: see merge. Its errors are to be
// returned through Failed.
func (d *Dial) Client() *adminsocket.Client {
	if d.many() {
		return adminsocket.NewClientOver("the nodes", d.dialAll())
	}
	return adminsocket.NewClient(d.socket)
}

// Failed gives an error of the client the exit code that it has, nil for none and for the end of the command by Ctrl-C.
func Failed(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil
	case errors.Is(err, adminsocket.ErrNotReachable), errors.Is(err, adminsocket.ErrPermission),
		errors.Is(err, adminsocket.ErrVersion):
		return exitError{err, exitUnreachable}
	case errors.Is(err, adminsocket.ErrNotFound):
		return exitError{err, exitNothing}
	}
	return err
}
