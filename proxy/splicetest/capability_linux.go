package splicetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

// unprivilegedVariable is set in the environment of a process that serves without capabilities.
const unprivilegedVariable = "SPLICETEST_UNPRIVILEGED"

// transparentUnprivileged: without CAP_NET_ADMIN and CAP_NET_RAW endpoints see the node's address, and that is
// reported once. The data path runs in a process without them, between the namespaces of this one.
func transparentUnprivileged(t *trial) {
	if os.Getenv(unprivilegedVariable) != "" {
		serveUnprivileged(t)
		return
	}
	c := newCluster(t)
	eachProtocol(func(protocol inet.Protocol, family inet.Family) {
		c.whoami(c.pod, protocol, podAddrs[family])
	})
	child := c.startUnprivileged()
	i := 0
	eachProtocol(func(protocol inet.Protocol, family inet.Family) {
		seen, err := seenFrom(c.client, protocol, netip.AddrPortFrom(towardClient[family], child.ports[i]))
		if err != nil || seen != towardPod[family] {
			t.Errorf("%s: the endpoint sees %s, want %s: %v", protocol, seen, towardPod[family], err)
		}
		i++
	})
	if reports := child.stop(); reports != "1 of ErrTransparent for EPERM, 1 in all" {
		t.Errorf("reports: %q", reports)
	}
}

// unprivileged is a process without capabilities that serves.
type unprivileged struct {
	ports []uint16 // in the order of eachProtocol
	stop  func() (reports string)
}

// marker begins the lines that the process has for its parent.
const marker = "splicetest: "

func (c *cluster) startUnprivileged() *unprivileged {
	c.Helper()
	cmd := command(c)
	cmd.Env = append(cmd.Env, unprivilegedVariable+"=1")
	in, err := cmd.StdinPipe()
	c.must(err)
	out, err := cmd.StdoutPipe()
	c.must(err)
	c.node.Must(func() error { return startWithout(cmd) })
	lines := bufio.NewScanner(out)
	u := &unprivileged{stop: func() string {
		in.Close()
		reports := nextLine(lines)
		io.Copy(io.Discard, out)
		c.must(cmd.Wait())
		return reports
	}}
	for _, port := range strings.Fields(nextLine(lines)) {
		var n uint16
		_, err := fmt.Sscan(port, &n)
		c.must(err)
		u.ports = append(u.ports, n)
	}
	if len(u.ports) != 4 {
		c.Fatalf("the process without capabilities serves at %v", u.ports)
	}
	return u
}

func nextLine(lines *bufio.Scanner) string {
	for lines.Scan() {
		if line, ok := strings.CutPrefix(lines.Text(), marker); ok {
			return line
		}
	}
	return ""
}

// startWithout starts a process that cannot have the capabilities for transparent sockets. No process that the calling
// thread starts can have them any more.
func startWithout(cmd *exec.Cmd) error {
	for _, capability := range []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	return cmd.Start()
}

// serveUnprivileged is the process's part: it serves until its input ends, and tells its parent the ports and then what
// was reported.
func serveUnprivileged(t *trial) {
	reports := make(chan error, 1000)
	d := t.start(splice.Options{Policy: asClient, Returns: returns, Warn: func(err error) { reports <- err }})
	ports := ""
	eachProtocol(func(protocol inet.Protocol, family inet.Family) {
		pod := netip.AddrPortFrom(podAddrs[family], 8080)
		ports += fmt.Sprint(" ", expose(d, service.Port{}, protocol, family, toOne(pod)))
	})
	fmt.Println("\n" + marker + ports)
	io.Copy(io.Discard, os.Stdin)
	all, expected := len(reports), 0
	for range all {
		if err := <-reports; errors.Is(err, splice.ErrTransparent) && errors.Is(err, unix.EPERM) {
			expected++
		}
	}
	fmt.Printf("\n%s%d of ErrTransparent for EPERM, %d in all\n", marker, expected, all)
}
