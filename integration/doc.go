// Package integration tests the whole daemon: the real binary in network namespaces, with real manifests, real iptables
// and real programs. It judges by what clients see, and by what the daemon shows of itself: records, metrics, health.
package integration
