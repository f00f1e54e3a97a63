// Command kubetest is a Kubernetes control plane for tests, a kubectl to talk to it, and a kube-proxy to compare with,
// in one static binary: the control plane needs no container engine, no privileges, and no network but loopback. It is
// a module of its own, because the sources of Kubernetes are a dependency that portald does not have.
//
//	kubetest up --dir DIR    etcd, kube-apiserver and kube-controller-manager, until it is interrupted
//	kubetest kubelets ...    what answers exec in the place of kubelets
//	kubetest PROGRAM ...     one of them, or kubectl or kube-proxy, with flags of its own
//
// Linked under the name of one of its programs it is that program.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/portald/portald/integration/kubetest/plane"
)

func main() {
	all := programs()
	name := filepath.Base(os.Args[0])
	if _, linked := all[name]; !linked && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	run, known := all[name]
	if !known {
		fmt.Fprintf(os.Stderr, "usage: kubetest %s [ARGUMENTS]\n", strings.Join(slices.Sorted(maps.Keys(all)), "|"))
		os.Exit(2)
	}
	os.Exit(run())
}

// up runs a control plane until it is told to end.
func up() int {
	options, err := plane.ParseOptions(os.Args[1:])
	if err != nil {
		return 2 // it was said with the usage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := plane.Run(ctx, options, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubetest:", err)
		return 1
	}
	return 0
}
