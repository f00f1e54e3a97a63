package flows

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/service"
)

// Addresses that the rules of the test translate, to the loopback address and the port that the test's server has.
const (
	serves  = ":80"
	refuses = ":81"
	silent  = ":82"
	resets  = ":83"
)

// hostWithRules moves the test into a network namespace of its own for good, where rules translate 10.96.0.1 and
// fd00:96::1, and the kernel forgets flows after a second.
func hostWithRules(t *testing.T) {
	t.Helper()
	for _, command := range []string{"ip", "iptables", "ip6tables"} {
		if _, err := exec.LookPath(command); err != nil {
			netnstest.Missing(t, "needs iptables and a network namespace of its own (root, or `unshare -rn`): %v", err)
		}
	}
	runtime.LockOSThread()
	handle, err := netns.New()
	if err != nil {
		netnstest.Missing(t, "needs iptables and a network namespace of its own (root, or `unshare -rn`): %v", err)
	}
	t.Cleanup(func() { handle.Close() })
	commands := []string{"ip link set lo up", "ip addr add 10.96.0.1/32 dev lo", "ip addr add fd00:96::1/128 dev lo"}
	for iptables, to := range map[string][2]string{"iptables": {"10.96.0.1", "127.0.0.1"},
		"ip6tables": {"fd00:96::1", "[::1]"}} {
		for port, target := range map[string]string{"80": "8080", "81": "9", "82": "8082", "83": "8083"} {
			for _, protocol := range []string{"tcp", "udp"} {
				commands = append(commands, fmt.Sprintf("%s -t nat -A OUTPUT -d %s -p %s --dport %s -j DNAT --to %s:%s",
					iptables, to[0], protocol, port, to[1], target))
			}
		}
		commands = append(commands, iptables+" -A INPUT -p tcp --dport 8082 -j DROP",
			iptables+" -A INPUT -p udp --dport 8082 -j DROP")
	}
	for _, command := range commands {
		words := strings.Fields(command)
		if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	for _, kind := range []string{"tcp_timeout_time_wait", "tcp_timeout_close", "tcp_timeout_syn_sent", "udp_timeout",
		"udp_timeout_stream"} {
		if err := os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_"+kind, []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
	}
	serve(t)
}

// serve answers at port 8080, and resets at 8083.
func serve(t *testing.T) {
	t.Helper()
	for port, linger := range map[int]int{8080: -1, 8083: 0} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 9))
				_ = c.(*net.TCPConn).SetLinger(linger)
				_, _ = io.WriteString(c, "hello")
				c.Close()
			}
		}()
	}
	for _, at := range []string{"127.0.0.1:8080", "[::1]:8080"} {
		answer(t, at)
	}
}

// answer answers datagrams.
func answer(t *testing.T, at string) {
	t.Helper()
	u, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	go func() {
		for {
			_, from, err := u.ReadFrom(make([]byte, 9))
			if err != nil {
				return
			}
			_, _ = u.WriteTo([]byte("hello"), from)
		}
	}()
}

// ask sends a word and waits for an answer; not for long where none is to come.
func ask(network, to string) error {
	patience := 10 * time.Second
	if strings.HasSuffix(to, silent) {
		patience = 200 * time.Millisecond
	}
	c, err := (&net.Dialer{Timeout: patience}).Dial(network, to) //nolint:noctx // it has a timeout
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, "word"); err != nil {
		return err
	}
	_, err = io.ReadAll(io.LimitReader(c, 5))
	return err
}

func open(t *testing.T, opts platform.ConntrackEventOptions) *platform.ConntrackEvents {
	t.Helper()
	events, err := platform.OpenConntrackEvents(opts)
	if errors.Is(err, syscall.EPERM) {
		netnstest.Missing(t, "needs iptables and a network namespace of its own (root, or `unshare -rn`): %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { events.Close() })
	return events
}

// ends receives until that many flows have ended, and returns them by the address that the client dialled.
func ends(t *testing.T, events *platform.ConntrackEvents, n int) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for deadline := time.Now().Add(20 * time.Second); len(out) < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d flows have ended in time", len(out), n)
		}
		expire(t)
		_, err := events.Receive(100*time.Millisecond, func(begins bool, flow []byte) {
			var f Flow
			if f.parse(flow) && !begins {
				out[f.Protocol.String()+" "+f.To.String()] = slices.Clone(flow)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// expire has the kernel remove flows that have expired, which a list does.
func expire(t *testing.T) {
	t.Helper()
	if err := platform.ListFlows(t.Context(), false, func([]byte) bool { return true }); err != nil {
		t.Fatal(err)
	}
}

// The kernel's events tell how flows really ended. With UPDATE_GOLDEN=1 they become the events of TestEnds.
func TestKernelTells(t *testing.T) {
	hostWithRules(t)
	account, err := platform.AccountFlows()
	if err != nil || !account.Counted || !account.Timed {
		t.Fatalf("%+v, %v", account, err)
	}
	events, before := open(t, platform.ConntrackEventOptions{Buffer: 1 << 20}), time.Now()
	var peers []string
	for _, ip := range []string{"10.96.0.1", "[fd00:96::1]"} {
		for _, port := range []string{serves, refuses, silent, resets} {
			_ = ask("tcp", ip+port) // the kernel says how it went
			peers = append(peers, "tcp "+ip+port)
		}
		for _, port := range []string{serves, silent} {
			_ = ask("udp", ip+port)
			peers = append(peers, "udp "+ip+port)
		}
	}
	if err := ask("tcp", "127.0.0.1:8080"); err != nil { // of no Service
		t.Fatal(err)
	}
	got := ends(t, events, len(peers))
	for to, flow := range got {
		var f Flow
		f.parse(flow)
		if !slices.Contains(peers, to) || f.Start < before.UnixNano() || f.Stop > time.Now().UnixNano() || f.Stop < f.Start {
			t.Errorf("%s from %d to %d: %+v", to, f.Start, f.Stop, f)
		}
	}
	checkEnds(t, got)
	if os.Getenv("UPDATE_GOLDEN") == "" || t.Failed() {
		return
	}
	var text strings.Builder
	for _, to := range peers {
		fmt.Fprintf(&text, "%s %s\n", to, hex.EncodeToString(got[to]))
	}
	if err := os.WriteFile(captured, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The kernel leaves out what nobody asks for.
func TestKernelFilters(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	hostWithRules(t)
	for _, c := range []struct {
		name               string
		any, onlyFailures  bool
		direct, good, fail bool
	}{
		{name: "Services", good: true, fail: true},
		{name: "failures", onlyFailures: true, fail: true},
		{name: "all flows", any: true, direct: true, good: true, fail: true},
		{name: "failures of all flows", any: true, onlyFailures: true, fail: true},
	} {
		events := open(t, platform.ConntrackEventOptions{Any: c.any, Buffer: 1 << 20})
		if err := events.Filter(c.onlyFailures); err != nil {
			t.Fatal(err)
		}
		last := "tcp 10.96.0.1" + resets
		for _, to := range []string{"tcp 127.0.0.1:8080", "tcp 10.96.0.1" + serves, "udp 10.96.0.1" + serves} {
			network, to, _ := strings.Cut(to, " ")
			if err := ask(network, to); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Until(time.Now().Add(1100 * time.Millisecond))) // the timeouts
		expire(t)
		_ = ask("tcp", "10.96.0.1"+resets)
		seen := map[string]bool{}
		for deadline := time.Now().Add(10 * time.Second); !seen[last] && time.Now().Before(deadline); {
			expire(t)
			if _, err := events.Receive(50*time.Millisecond, func(_ bool, flow []byte) {
				var f Flow
				f.parse(flow)
				seen[f.Protocol.String()+" "+f.To.String()] = true
			}); err != nil {
				t.Fatal(err)
			}
		}
		if seen["tcp 127.0.0.1:8080"] != c.direct || seen["tcp 10.96.0.1:80"] != c.good ||
			seen["udp 10.96.0.1:80"] != c.good || seen[last] != c.fail {
			t.Errorf("%s: %v", c.name, seen)
		}
		events.Close()
	}
}

// Events without room in the buffer are lost and counted, and later events are received.
func TestKernelCountsWhatIsLost(t *testing.T) {
	hostWithRules(t)
	events := open(t, platform.ConntrackEventOptions{Buffer: 1}) // the kernel's least: a few events
	const flows = 100
	for range flows {
		if err := ask("tcp", "10.96.0.1"+refuses); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatal(err)
		}
	}
	got := uint64(0)
	receive := func() uint64 {
		lost, err := events.Receive(0, func(bool, []byte) { got++ })
		if err != nil {
			t.Fatal(err)
		}
		return lost
	}
	lost := receive()
	if got == 0 || lost == 0 || got+lost != flows {
		t.Errorf("of %d events %d were received and %d were lost", flows, got, lost)
	}
	got = 0
	_ = ask("tcp", "10.96.0.1"+refuses)
	if lost = receive(); got != 1 || lost != 0 {
		t.Errorf("afterwards %d of 1 was received, %d lost", got, lost)
	}
}

// A list has what is open, and leaves out flows of no Service where the kernel can.
func TestKernelLists(t *testing.T) {
	hostWithRules(t)
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "10.96.0.1"+serves)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	direct, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	r := New(Options{
		Mode: service.ModeKernel, Own: func(netip.Addr) bool { return false },
		Listener: func(netip.AddrPort) bool { return false },
		Timeouts: func() Timeouts { return Timeouts{} },
		List: func(ctx context.Context, each func([]byte) bool) error {
			return platform.ListFlows(ctx, true, each)
		},
	})
	r.Replace([]*service.Port{cart()})
	n := 0
	for live, err := range r.Open(t.Context()) {
		n++
		if err != nil || live.Client.String() != c.LocalAddr().String() || live.State != "ESTABLISHED" ||
			live.Service != cart().Name || live.Endpoint.Pod != "shop/cart-a" {
			t.Errorf("%+v, %v", live, err)
		}
	}
	if n != 1 {
		t.Errorf("%d connections, want one", n)
	}
}
