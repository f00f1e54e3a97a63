// Package handover tests that one portald after the other serves a node and no connection notices: real processes, a
// real kernel, each connection with a checked stream.
package handover
