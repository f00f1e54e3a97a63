package migrate

import (
	"net/http"
	"os"
	"slices"
	"syscall"

	"github.com/portald/portald/integration/bed"
)

// kubeProxy is the kube-proxy of a node.
type kubeProxy struct {
	b          *bed.Bed
	program    []string
	mode       string
	kubeconfig string
	runs       *bed.Daemon
}

// kubeProxyProgram is the command line of kube-proxy, without flags.
func kubeProxyProgram() []string {
	program := os.Getenv("KUBETEST")
	if bed.InVM {
		program = "testdata/guest/kubetest"
	}
	return []string{program, "kube-proxy"}
}

// start runs it with the flags that a container of it has, but for the limit of conntrack, which is the whole host's.
func (k *kubeProxy) start() {
	k.b.Helper()
	k.runs = k.b.Exec(append(slices.Clone(k.program), "--kubeconfig="+k.kubeconfig, "--hostname-override=a", bed.PodRanges,
		"--proxy-mode="+k.mode, "--conntrack-max-per-core=0")...)
	k.b.Cleanup(k.stop) // before its bed looks how it has ended
}

// stop ends it. It leaves its rules, and a signal is how it always ends.
func (k *kubeProxy) stop() {
	k.runs.Signal(syscall.SIGTERM)
	<-k.runs.Ended
}

// healthy tells whether it is the one that answers for the node's health.
func (k *kubeProxy) healthy() bool {
	select {
	case <-k.runs.Ended:
		k.b.Fatalf("kube-proxy has ended: %s", k.runs.Log)
	default:
	}
	code, _, err := k.b.Get("127.0.0.1:10256", "/healthz")
	return err == nil && code == http.StatusOK
}

// cleanUp has it remove its rules, of every mode.
func (k *kubeProxy) cleanUp() {
	k.b.Helper()
	run := k.b.Exec(append(slices.Clone(k.program), "--cleanup")...)
	<-run.Ended
	if code := run.Exit(); code != 0 {
		k.b.Fatalf("kube-proxy --cleanup ended with code %d\n%s", code, run.Log)
	}
}
