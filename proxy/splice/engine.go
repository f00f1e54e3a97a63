package splice

import (
	"context"
	"net/netip"
	"time"
)

// Engine moves the bytes of connections and sessions: it owns sockets, and nothing of what a Service is.
type Engine interface {
	// Listen opens a socket at an address for a front, a listening TCP socket or a bound UDP socket by the protocol of
	// the front's service port. An address in use is an error that wraps EADDRINUSE. The socket's descriptor is in the
	// Account when Listen is called; the engine gives it back when it closes the socket.
	Listen(f *Front, at netip.AddrPort) (Socket, error)
	// Run serves until ctx ends, then cuts every connection and session and returns when all of them have ended.
	Run(ctx context.Context) error
	// Silent returns for how long the slowest of the engine's goroutines has not answered an earlier call: some moments
	// at most, unless it hangs. It does not wait for answers. 0 once Run has ended.
	Silent() time.Duration
}

// Socket is a socket that an Engine listens at. Its methods return at once.
type Socket interface {
	Drain() // no new connections or sessions; those that the kernel had accepted already are served
	Close() // no new connections, and sessions end
	// Sessions are the *Sessions of a UDP socket, nil for any other.
	Sessions() SessionTable
}

// SessionTable is the Sessions of a UDP socket as its front sees them. Any goroutine may call it.
type SessionTable interface {
	Resume()                        // receives again
	retarget(*View)                 // other endpoints serve
	setGuarded(bool)                // see Front.SetGuarded
	sweepSoon()                     // the idle timeout is another
	cutSoon()                       // ends them by force
	replyPending(reply chan<- bool) // replies whether one waits for an answer that may be under way
}

// MovingSocket is a Socket of which a successor can have a duplicate. Its methods return at once.
type MovingSocket interface {
	Socket
	File() int // its descriptor, which is the engine's
}

// Pausable is a MovingSocket of TCP that can stop accepting for a while.
type Pausable interface {
	Pause()
	Resume()
}
