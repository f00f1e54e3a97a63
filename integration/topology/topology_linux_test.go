package topology

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Enter()
	if os.Getenv("TOPOLOGY_TEST_CHILD") != "" {
		child()
	}
	os.Exit(m.Run())
}

func make3(t *testing.T, name string) *Net {
	t.Helper()
	Require(t, "iptables")
	n, err := New(t.Context(), Options{Clients: 2, Pods: 3, IPv6: true, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestEveryoneReachesEveryone(t *testing.T) {
	n := make3(t, "")
	for _, to := range []*Host{n.Node, n.Pod(0), n.Pod(2), n.Client(1)} {
		for _, addr := range []netip.Addr{to.IPv4, to.IPv6} {
			if err := refusal(t, n.Client(0), addr); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("dial %s at %s: %v, want a refusal", to.Name, addr, err)
			}
		}
	}
}

// refusal is a reachable host's answer at a port where nobody listens.
func refusal(t *testing.T, from *Host, to netip.Addr) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := from.Dial(ctx, "tcp", netip.AddrPortFrom(to, 9).String())
	if err == nil {
		c.Close()
	}
	return err
}

// A packet to the service ranges arrives at the node, which may then do as it likes with it.
func TestServiceRangeLeadsToNode(t *testing.T) {
	n := make3(t, "")
	pod, err := n.Pod(1).Listen("tcp", n.Pod(1).IPv4.String()+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer pod.Close()
	args := strings.Fields("-w -t nat -A PREROUTING -d 10.96.0.7 -p tcp --dport 80 -j DNAT --to-destination " +
		pod.Addr().String())
	if out, err := n.Node.Command(t.Context(), "iptables", args...).CombinedOutput(); err != nil {
		t.Fatalf("iptables: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := n.Client(1).Dial(ctx, "tcp", "10.96.0.7:80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := pod.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if from := netip.MustParseAddrPort(p.RemoteAddr().String()).Addr(); from != n.Client(1).IPv4 {
		t.Errorf("the pod saw %s, want client %s", from, n.Client(1).IPv4)
	}
}

func TestTwoNetworksStandSideBySide(t *testing.T) {
	a, b := make3(t, "a-"), make3(t, "b-")
	la, err := a.Pod(0).Listen("tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer la.Close()
	if c, err := b.Client(0).Dial(t.Context(), "tcp", a.Pod(0).IPv4.String()+":80"); err == nil {
		c.Close()
		t.Error("a client of one network reached a pod of the other")
	}
	if _, err := New(t.Context(), Options{Name: "a-"}); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second network of the same name: %v, want that it exists", err)
	}
	if _, err := os.Stat(a.Node.Path()); err != nil {
		t.Errorf("the refused network took down the first: %v", err)
	}
}

func TestCommandEndsWithItsGroup(t *testing.T) {
	n := make3(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	cmd := n.Node.Command(ctx, "sh", "-c", "sleep 60 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := make([]byte, 32)
	k, err := out.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = cmd.Wait() // killed
	stat := "/proc/" + strings.TrimSpace(string(pid[:k])) + "/stat"
	waitFor(t, "the grandchild to end", func() bool {
		b, err := os.ReadFile(stat)
		return err != nil || bytes.Contains(b, []byte(") Z "))
	})
}

// The runtime may start a command on a thread that a later Do throws away.
func TestCommandOutlivesThreads(t *testing.T) {
	n := make3(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	var cmds []*exec.Cmd
	for range 10 {
		cmd := n.Node.Command(ctx, "sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
		for range 10 {
			if err := n.Pod(0).Do(func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	time.Sleep(20 * time.Millisecond) // for a signal to do its work
	for i, cmd := range cmds {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)); err != nil ||
			bytes.Contains(b, []byte(") Z ")) {
			t.Errorf("command %d has ended: %s %v", i, b, err)
		}
	}
	cancel()
	for _, cmd := range cmds {
		_ = cmd.Wait() // killed
	}
}

// child is run and killed by TestKilledLeavesNothing: a program in its own topology with a stubborn daemon.
func child() {
	n, err := New(context.Background(), Options{})
	if err != nil {
		os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
	daemon := n.Node.Command(context.Background(), "sh", "-c", "trap '' HUP TERM; setsid sleep 61.5 & wait")
	if err := daemon.Start(); err != nil {
		os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString("up\n")
	time.Sleep(time.Minute)
	os.Exit(0)
}

func TestKilledLeavesNothing(t *testing.T) {
	Require(t, "setsid")
	if os.Getpid() != 1 {
		Lack(t, "needs a process namespace, and /proc cannot be mounted here")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), stateKey+"=", "TOPOLOGY_TEST_CHILD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 200)
	if k, _ := out.Read(line); string(line[:k]) != "up\n" {
		t.Fatalf("child says %q", line[:k])
	}
	waitFor(t, "the daemon to run", func() bool { return sleepers(t) == 1 })
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	waitFor(t, "the daemon to end", func() bool { return sleepers(t) == 0 })
	if _, err := os.Stat("/run/netns/node"); err == nil {
		t.Error("the child's namespace shows outside")
	}
}

// sleepers counts living daemons of child.
func sleepers(t *testing.T) (n int) {
	t.Helper()
	procs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		if b, _ := os.ReadFile("/proc/" + p.Name() + "/cmdline"); string(b) == "sleep\x0061.5\x00" {
			n++
		}
	}
	return n
}

func TestExitCodePassesThrough(t *testing.T) {
	Require(t)
	for _, arg := range []string{"-test.run=^$", "-test.no-such-flag"} {
		cmd := exec.Command("/proc/self/exe", arg)
		cmd.Env = append(os.Environ(), stateKey+"=")
		want := map[bool]int{true: 0, false: 2}[arg == "-test.run=^$"]
		_ = cmd.Run() // the exit code tells
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: exit code %d, want %d", arg, got, want)
		}
	}
}

type fakeT struct{ said string }

func (f *fakeT) Helper()                  {}
func (f *fakeT) Skipf(s string, _ ...any) { f.said = "skip" }
func (f *fakeT) Fatalf(s string, _ ...any) {
	f.said = "fail"
}

func TestRequireNamesWhatIsMissing(t *testing.T) {
	Require(t)
	for all, want := range map[string]string{"": "skip", "1": "fail"} {
		t.Setenv("REQUIRE_ALL", all)
		var f fakeT
		Require(&f, "no-such-command")
		if f.said != want {
			t.Errorf("REQUIRE_ALL=%q: %q, want %q", all, f.said, want)
		}
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}
