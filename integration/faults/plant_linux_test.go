package faults

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/portald/portald/integration/bed"
)

// fillConntrack makes entries, and shows the doctor a limit of which they use so many percent: the limit itself belongs
// to the whole machine.
func fillConntrack(percent int) func(*node) {
	return func(n *node) {
		n.Helper()
		n.Tally(100, 10, n.Client, "udp", bed.HostPort(bed.IP4, 80))
		count, err := strconv.Atoi(strings.TrimSpace(n.On(n.Node, "cat", "/proc/sys/net/netfilter/nf_conntrack_count")))
		n.Must(err)
		file := filepath.Join(n.Dir, "nf_conntrack_max")
		n.WriteFile(file, count*100/percent)
		n.run = []string{"unshare", "--mount", "sh", "-c",
			"mount --bind " + file + ` /proc/sys/net/netfilter/nf_conntrack_max && exec "$0" "$@"`}
	}
}

// holdLock holds a lock file of iptables of the node's own.
func (n *node) holdLock() {
	n.Helper()
	file, err := os.Create(filepath.Join(n.Dir, "xtables.lock"))
	n.Must(err)
	n.Cleanup(func() { file.Close() })
	n.Must(syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
	n.run = []string{"env", "XTABLES_LOCKFILE=" + file.Name()}
}

// hangIPTables shows the doctor an iptables that never answers.
func (n *node) hangIPTables() {
	n.Helper()
	n.WriteFile(filepath.Join(n.Dir, "bin", "iptables"), "#!/bin/sh\nexec sleep 300\n")
	n.Must(os.Chmod(filepath.Join(n.Dir, "bin", "iptables"), 0o700))
	n.run = []string{"env", "PATH=" + filepath.Join(n.Dir, "bin") + ":" + os.Getenv("PATH")}
}

// runKubeProxy runs a program of that name on the node.
func (n *node) runKubeProxy() {
	n.Helper()
	sleep := strings.TrimSpace(n.On(n.Node, "sh", "-c", "command -v sleep"))
	text, err := os.ReadFile(sleep)
	n.Must(err)
	path := filepath.Join(n.Dir, "kube-proxy")
	n.Must(os.WriteFile(path, text, 0o700))
	cmd := n.Node.Command(n.Context(), path, "300")
	n.Must(cmd.Start())
	n.Cleanup(func() { _ = cmd.Wait() })
	n.Eventually("the process to have its name", func() bool {
		_, err := n.Try(n.Node, "sh", "-c", "grep -qx kube-proxy /proc/[0-9]*/comm")
		return err == nil
	})
}

// useDescriptors opens connections, and sets the daemon's limit to little more than it has open then.
func (n *node) useDescriptors() {
	n.Helper()
	for range 50 {
		n.Open(bed.HostPort(bed.IP4, 80))
	}
	give := n.daemon.LimitFiles(func(open int) int { return open * 100 / 87 })
	n.Cleanup(give) // it has to end by itself
}
