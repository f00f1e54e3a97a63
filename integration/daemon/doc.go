// Package daemon tests the process: start, stop, flags, manifests, records, health and metrics.
package daemon
