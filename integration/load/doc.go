// Package load makes and serves traffic for measurements: small exchanges over TCP and UDP, on open connections or a
// new one each. Clients and servers are event loops on raw descriptors that allocate nothing while they run, so that
// what is between them is what is measured.
package load
