// Package modes tests what must hold in every proxy mode: all frontends are served, servers of the host stay
// reachable, and mode switches and restarts under load lose no connection.
package modes
