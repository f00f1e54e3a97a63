//go:build unix

package adminapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// DefaultSocket is that of this system.
const DefaultSocket = DefaultUnixSocket

// Listen listens at a Unix socket that this user alone can open. A folder that is missing is made, for this user alone
// too. A socket that nobody answers at is replaced. When the listener is closed, its socket is removed.
func Listen(_ context.Context, path string) (net.Listener, error) {
	if answers(path) {
		return nil, fmt.Errorf("listen at %s: %w", path, ErrInUse)
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	// Nobody else may connect before the mode is set, so it is set in a folder of this user's.
	private, err := os.MkdirTemp(folder, ".new")
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	l, err := listenIn(private, path)
	return l, errors.Join(err, os.RemoveAll(private))
}

// listenIn makes the socket in a private folder, and moves it to its place.
func listenIn(private, path string) (net.Listener, error) {
	made := filepath.Join(private, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	info, err := os.Lstat(made)
	if err == nil {
		err = os.Chmod(made, 0o600)
	}
	if err == nil {
		err = replace(made, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &listener{l, path, info}, nil
}

// replace moves a socket to path, where nothing but a socket may be.
func replace(socket, path string) error {
	switch there, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case there.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there already, and is no socket: write another path", path)
	}
	return os.Rename(socket, path)
}

// listener removes its socket when it is closed, unless another took its place.
type listener struct {
	*net.UnixListener
	path string
	made fs.FileInfo
}

func (l *listener) Close() error {
	if there, err := os.Lstat(l.path); err == nil && os.SameFile(there, l.made) {
		_ = os.Remove(l.path) // a socket that is left is replaced at the next start
	}
	return l.UnixListener.Close()
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
