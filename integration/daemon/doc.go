// Package daemon tests the portald process: start, stop, flags, manifests, connection log, health and metrics.
package daemon
