// Package modes tests what holds in each mode: the matrix of frontends, servers of the host, switches and restarts
// under load.
package modes
