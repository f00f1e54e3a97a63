// Package splice is the life of a connection: accept, admit, pick, dial, carry, report. It decides, for each TCP
// connection and UDP session, which endpoint to dial, when to dial another, how long to wait and how it ends, and it
// reports one record of each. It makes no system call. An Engine owns the sockets and moves the bytes: it tells the
// connection what has happened, and does the Step that it gets back:
//
//	c.Accept(front, owner, client, now)       // a listener of the front has a connection
//	step := c.Admit(dialled, now)             // StepDial: connect to step.Endpoint, until step.Until
//	step = c.Connected(step.Dial, now)        // StepCarry: carry bytes both ways
//	step = c.EOF(record.Client, now)          // StepHalfClose: close the endpoint's side for writing
//	step = c.EOF(record.Endpoint, now)        // StepEnd: close both sockets
//	c.Closed(now)                             // the record is reported
//
// So nothing here depends on the operating system, and every decision can be tested without a socket. The package does
// not know how endpoints are chosen (a Picker does) or what leads clients to listeners, and it logs nothing.
//
// The files stand on each other like this, and name their subject first:
//
//   - core, front, registry, entry, engine: the fronts, and a list of all that is open. They know no connection.
//   - admission, dial, wait: the parts that TCP connections and UDP sessions share, put together in life. Each has a
//     state of its own, and is told the entry.
//   - conn: a TCP connection, by what is done with it: dialling, open, replay, delivery.
//   - udp: a UDP session, and the sessions of a socket.
//   - handover: what a successor or a keeper gets of both, and how one goes on with it.
//   - inspect: figures, events, and what the kernel tells of sockets.
//
// A new limit of clients goes to package quota, and its check to admission. A new reason to dial again goes to
// dial_retry or conn_replay. A new way to end is an ending in conn, with its outcome in package record. If an engine
// has to do something for it, that is a field of Step, never a call from here.
package splice
