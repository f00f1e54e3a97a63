// Package faults tests what portald says of a node with something wrong: one fault at a time is planted beside a real
// daemon in network namespaces, and `portald doctor` or `portald explain` has to name it. On a healthy node they find
// nothing.
package faults
