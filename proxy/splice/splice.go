// Package splice is a connection's life: accept, admit, pick, dial, splice, report. It carries TCP connections and UDP
// sessions from a listener to an endpoint that a Picker names, and reports one Record for each. It does not know how
// endpoints are chosen or who leads clients to its listeners, and it logs nothing.
package splice
