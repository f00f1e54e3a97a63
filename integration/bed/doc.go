// Package bed is the test bed of the daemon: it runs the real binary in network namespaces, with real manifests, real
// iptables, clients that send requests and pods that answer. It does not know what a test checks.
package bed
