// Package topology makes networks for tests, the demo and the benchmark: client – node – pods over veth, each in a
// network namespace of its own, inside a private mount, network and process namespace that vanishes with the program,
// also when that is killed. Several of them make a cluster, with a host for the servers that its nodes share. It needs
// root or unprivileged user namespaces, and knows nothing of portald.
//
//	func TestMain(m *testing.M) { topology.Enter(); os.Exit(m.Run()) }
//
//	func TestX(t *testing.T) {
//		topology.Require(t, "curl")
//		net, err := topology.New(t.Context(), topology.Options{Pods: 3})
//		...
//		defer net.Close()
//		net.Client(0).Command(ctx, "curl", "http://10.96.0.1/")
//	}
package topology
