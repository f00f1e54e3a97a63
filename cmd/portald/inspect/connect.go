package inspect

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/portald/portald/proxy/adminsocket"
)

// Dial is how a command reaches the daemon.
type Dial struct{ socket string }

// AddSocket gives a command the flag --socket.
func AddSocket(cmd *cobra.Command) *Dial {
	d := &Dial{}
	cmd.Flags().StringVar(&d.socket, "socket", adminsocket.DefaultSocket, "the daemon's --admin-socket, a `PATH`")
	return d
}

// Client returns a client of the daemon. Its errors are to be returned through Failed.
func (d *Dial) Client() *adminsocket.Client { return adminsocket.NewClient(d.socket) }

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
