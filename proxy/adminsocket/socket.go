package adminsocket

import "errors"

// Where the daemon listens by default, and commands look for it: DefaultSocket is this system's.
const (
	DefaultUnixSocket = "/run/portald/admin.sock"
	DefaultPipe       = `\\.\pipe\portald-admin`
)

// ErrInUse is the error of Listen when a daemon answers at the socket.
var ErrInUse = errors.New("another portald answers there")
