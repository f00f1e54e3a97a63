package adminsocket

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
)

// DefaultSocket is the name of the admin pipe on this system.
const DefaultSocket = DefaultPipe

// onlyAdministrators gives all rights to SYSTEM and to the group of administrators, and none to others.
const onlyAdministrators = "D:P(A;;GA;;;SY)(A;;GA;;;BA)"

// Listen listens at a named pipe that SYSTEM and administrators alone can open.
func Listen(_ context.Context, path string) (net.Listener, error) {
	l, err := winio.ListenPipe(path, &winio.PipeConfig{SecurityDescriptor: onlyAdministrators})
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) { // as for a pipe that another process has
		err = ErrInUse
	}
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	return l, nil
}

// Replace is Listen: nothing listens in place of another here.
func Replace(ctx context.Context, path string) (net.Listener, error) { return Listen(ctx, path) }

func dial(ctx context.Context, path string) (net.Conn, error) {
	return winio.DialPipeContext(ctx, path)
}
