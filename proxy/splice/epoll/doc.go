// Package epoll carries connections and datagrams on Linux: an engine of proxy/splice. The core decides what happens to
// a connection and returns a splice.Step; an engine does it, and tells the core what came of it. So this package owns
// sockets, buffers and pipes, and knows neither Services nor what the end of a connection means.
//
// # Loops
//
// An engine has a few loops, each a goroutine with an epoll set of its own. A loop owns what it watches, and handles
// all of that without a lock; other goroutines reach it by functions that it runs for them (poller.do). An iteration of
// a loop handles events first: new connections, dials, small exchanges, datagrams. Then it gives bulk a quantum, moves
// long-lived connections to loops with fewer of them, and looks at its timers.
//
// # The life of a connection
//
// A listener accepts it on one of its loops, and the core admits it. It is a conn:
//
//   - dials (conndial_linux.go): one socket to an endpoint, or two where the policy hedges. The client is watched only
//     if that takes long.
//   - relaying (connrelay_linux.go): its relay has both sockets and a flow in each direction. A flow copies small loads
//     through the loop's one buffer, and splices large ones through a pipe. Bytes that the destination does not take
//     are unsent: only then does the flow borrow a buffer or a pipe, from the stock of its loop.
//   - delivering (conndeliver_linux.go): one side has failed, and what it sent before still goes to the other.
//   - departed (connhandover_linux.go): it stands still while a successor may get it, and goes on here if none does.
//   - closed: both sockets are closed, and the core writes the record.
//
// The core reaches a connection by its owner (connowner_linux.go), from any goroutine. If somebody keeps connections
// for a successor, flows note in shared memory what they are about to do (Memory): after a crash the successor recovers
// from it what was read and not sent.
//
// # To add something
//
// Work for each load belongs to flow, and costs each load: measure. Work at an event belongs to conn, or to a part of
// it that knows no conn: relay, dials, unsent, socket. These stand below conn, so that a part can be read and tested by
// itself; they return what has happened, and conn tells the core. An idle connection is one object of at most 896
// bytes: what few connections need is behind a pointer. Every engine passes the suite of splicetest: add a scenario
// there first.
package epoll
