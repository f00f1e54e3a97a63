// Package load generates and serves traffic for measurements: small requests over TCP and UDP, on open or new
// connections, and bulk transfers. Clients and servers are event loops on raw descriptors that allocate nothing while
// they run, so that the path between them dominates the measurement.
package load
