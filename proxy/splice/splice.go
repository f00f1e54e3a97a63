// Package splice is a connection's life: accept, admit, pick, dial, carry, report. For each TCP connection and UDP
// session it decides which endpoint to dial, when to dial another, how long to wait and how it ends, and reports one
// Record. An Engine moves the bytes: it owns the sockets, says what has happened to them, and does what comes next. So
// nothing here depends on the operating system. It does not know how endpoints are chosen or what leads clients to its
// listeners, and it logs nothing.
package splice
