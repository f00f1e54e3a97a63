// Package goroutine carries connections and datagrams on every system: an engine of proxy/splice. The core decides what
// happens to a connection and returns a splice.Step; an engine does it, and tells the core what came of it. This one
// uses package net, and what a system offers beyond that: its Host, any function of which may be missing.
//
// # The life of a connection
//
// A listener accepts a conn, whose run admits it, dials, and then carries what the client sends; another goroutine
// carries what the endpoint sends. Each is a direction, from a source to a sink (ends.go). It reads and writes small
// loads, and bulk by pipes or io.Copy (directionbulk.go). Goroutines meet at the connection's mutex: who has it owns
// the splice.Conn, and calls the core (conn.do). They wait for sockets without it.
//
// A connection that goes to another endpoint ends both directions and begins two more (connrelay.go); one that has
// ended closes its sockets once what was sent before has arrived (conndelivery.go). It stays in this process: there is
// no hand-over.
//
// # To add something
//
// A call that only some systems have is a field of Host, with a method beside it that says what happens without.
// conn.perform does a step of the core, or starts it if it may wait. Every engine passes the suite of splicetest: add a
// scenario there first.
package goroutine
