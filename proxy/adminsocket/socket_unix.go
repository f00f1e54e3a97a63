//go:build unix

package adminsocket

import (
	"context"
	"fmt"
	"net"

	"github.com/portald/portald/platform"
)

// DefaultSocket is the path of the admin socket on this system.
const DefaultSocket = DefaultUnixSocket

// Listen listens at a Unix socket that this user alone can open. A folder that is missing is made, for this user alone
// too. A socket that nobody answers at is replaced. When the listener is closed, its socket is removed.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if answers(path) {
		return nil, fmt.Errorf("listen at %s: %w", path, ErrInUse)
	}
	return Replace(ctx, path)
}

// Replace is Listen in place of a daemon that listens there: clients reach this one from now on.
func Replace(_ context.Context, path string) (net.Listener, error) {
	l, err := platform.ListenPrivate("unix", path)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// answers tells whether a daemon listens at a socket.
func answers(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}
