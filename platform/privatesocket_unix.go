//go:build unix

package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrPeer is the error of CheckPeer.
var ErrPeer = errors.New("the other end of the socket is a process of another user")

// ListenPrivate listens at a Unix socket that this user alone can open, in place of any socket that is there. A folder
// that is missing is made, for this user alone too. When the listener is closed its socket is removed, unless another
// has taken its place. Whoever accepts asks CheckPeer: somebody may have changed the mode of the socket.
func ListenPrivate(network, path string) (*PrivateListener, error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	removeAbandoned(folder)
	// Nobody else may connect before the mode is set, so it is set in a folder of this user's.
	private, err := os.MkdirTemp(folder, privateName)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	l, err := listenIn(network, private, path)
	return l, errors.Join(err, os.RemoveAll(private))
}

// privateName begins the names of folders that are there for a moment: the path of a socket has little room.
// abandonedAfter is the age of one whose process was killed meanwhile.
const (
	privateName    = ".ptd"
	abandonedAfter = time.Minute
)

// removeAbandoned removes the folders that processes have left which were killed while they began to listen.
func removeAbandoned(folder string) {
	all, _ := os.ReadDir(folder) // none, or whoever listens there finds out
	for _, e := range all {
		info, err := e.Info()
		if err == nil && info.IsDir() && strings.HasPrefix(e.Name(), privateName) &&
			time.Since(info.ModTime()) > abandonedAfter {
			_ = os.RemoveAll(filepath.Join(folder, e.Name())) // or the next one does
		}
	}
}

// listenIn makes the socket in a private folder, and moves it to its place.
func listenIn(network, private, path string) (*PrivateListener, error) {
	made := filepath.Join(private, "s")
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: made, Net: network})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	info, err := os.Lstat(made)
	if err == nil {
		err = os.Chmod(made, 0o600)
	}
	if err == nil {
		err = moveSocket(made, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &PrivateListener{UnixListener: l, path: path, made: info}, nil
}

// moveSocket moves a socket to path, where nothing but a socket may be.
func moveSocket(socket, path string) error {
	switch there, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case there.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there already, and is no socket: write another path", path)
	}
	return os.Rename(socket, path)
}

// PrivateListener is a listener that ListenPrivate made; Close removes its socket file.
type PrivateListener struct {
	*net.UnixListener
	path string
	made fs.FileInfo
	left atomic.Bool
}

// Leave has Close not remove the socket: another process is about to take its place.
func (l *PrivateListener) Leave() { l.left.Store(true) }

// Replaced tells whether another listener has taken this one's place.
func (l *PrivateListener) Replaced() bool {
	there, err := os.Lstat(l.path)
	return err == nil && !os.SameFile(there, l.made)
}

// Accept implements net.Listener. It closes connections of other users.
func (l *PrivateListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if CheckPeer(c) == nil {
			return c, nil
		}
		_ = c.Close()
	}
}

// Close implements net.Listener.
func (l *PrivateListener) Close() error {
	if there, err := os.Lstat(l.path); err == nil && os.SameFile(there, l.made) && !l.left.Load() {
		_ = os.Remove(l.path) // a socket that is left is replaced at the next start
	}
	return l.UnixListener.Close()
}

// PacketSocket is the network of Unix sockets that keep messages apart (SOCK_SEQPACKET).
const PacketSocket = "unixpacket"

// IsHangUp tells whether an error of a Unix socket means that the other end was closed.
func IsHangUp(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
