// Package bed is where the tests of the whole daemon happen: the real binary in network namespaces, with real
// manifests, real iptables, clients that ask and pods that answer. It knows nothing of what a test is about.
package bed
