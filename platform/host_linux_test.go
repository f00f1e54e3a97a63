package platform

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// inNamespace moves the test into a network namespace of its own for good.
func inNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	handle, err := netns.New()
	if err != nil {
		const missing = "needs a network namespace of its own (root, or `unshare -rn`): %v"
		if os.Getenv("REQUIRE_ALL") == "1" {
			t.Fatalf(missing, err)
		}
		t.Skipf(missing, err)
	}
	t.Cleanup(func() { handle.Close() })
}

func TestRaiseNoFile(t *testing.T) {
	if os.Getenv("RAISE") == "" {
		script := `ulimit -S -n 100; ulimit -H -n 200; exec "$0" -test.run=TestRaiseNoFile -test.v`
		cmd := exec.Command("sh", "-c", script, os.Args[0])
		cmd.Env = append(os.Environ(), "RAISE=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "raised to 200 of 200, now 200") {
			t.Errorf("a child with the limits 100 and 200: %v\n%s", err, out)
		}
		return
	}
	soft, hard, err := RaiseNoFile()
	if err != nil {
		t.Fatal(err)
	}
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("raised to %d of %d, now %d\n", soft, hard, now.Cur)
}

func TestLocalAddresses(t *testing.T) {
	inNamespace(t)
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"192.0.2.7/24", "192.0.2.7/32", "fd00::7/64"} {
		addr, err := netlink.ParseAddr(text)
		if err == nil {
			err = netlink.AddrAdd(lo, addr)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := LocalAddresses()
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Addr{
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.7"),
		netip.MustParseAddr("::1"), netip.MustParseAddr("fd00::7"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// flow puts a flow into the kernel's table: of a client to port of dst, which the same port of answers answers.
func flow(t *testing.T, protocol uint8, src, dst, answers string, port uint16) {
	t.Helper()
	from, to, by := net.ParseIP(src), net.ParseIP(dst), net.ParseIP(answers)
	family := netlink.InetFamily(unix.AF_INET6)
	if from.To4() != nil {
		family, from, to, by = unix.AF_INET, from.To4(), to.To4(), by.To4()
	}
	entry := &netlink.ConntrackFlow{
		FamilyType: uint8(family), TimeOut: 60,
		Forward: netlink.IPTuple{SrcIP: from, DstIP: to, Protocol: protocol, SrcPort: 4000, DstPort: port},
		Reverse: netlink.IPTuple{SrcIP: by, DstIP: from, Protocol: protocol, SrcPort: port, DstPort: 4000},
	}
	if protocol == unix.IPPROTO_TCP {
		entry.ProtoInfo = &netlink.ProtoInfoTCP{State: tcpEstablished}
	}
	if err := netlink.ConntrackCreate(netlink.ConntrackTable, family, entry); err != nil {
		t.Fatal(err)
	}
}

const tcpEstablished = 3 // TCP_CONNTRACK_ESTABLISHED

func flows(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		found, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			to, from := f.Forward, f.Reverse
			out = append(out, fmt.Sprintf("%d %s %s %d", to.Protocol, to.DstIP, from.SrcIP, to.DstPort))
		}
	}
	slices.Sort(out)
	return out
}

func TestDeleteUDP(t *testing.T) {
	inNamespace(t)
	flow(t, unix.IPPROTO_UDP, "192.0.2.1", "10.96.0.10", "10.244.0.5", 53)
	flow(t, unix.IPPROTO_UDP, "192.0.2.2", "10.96.0.10", "10.244.0.6", 53)
	flow(t, unix.IPPROTO_UDP, "192.0.2.3", "10.96.0.10", "10.96.0.10", 53)
	flow(t, unix.IPPROTO_UDP, "192.0.2.1", "10.96.0.10", "10.244.0.5", 54)
	flow(t, unix.IPPROTO_UDP, "192.0.2.4", "10.96.0.11", "10.244.0.5", 53)
	flow(t, unix.IPPROTO_TCP, "192.0.2.1", "10.96.0.10", "10.244.0.5", 53)
	flow(t, unix.IPPROTO_UDP, "fd00::1", "fd00::96", "fd00:244::5", 53)
	flow(t, unix.IPPROTO_UDP, "fd00::2", "fd00::96", "fd00:244::6", 53)
	flow(t, unix.IPPROTO_UDP, "fd00::3", "fd00::97", "fd00:244::5", 53)
	type pair struct{ dst, replySrc string }
	gone := map[pair]bool{
		{"10.96.0.10:53", "10.244.0.5:53"}: true, {"10.96.0.10:53", "10.96.0.10:53"}: true,
		{"[fd00::96]:53", "[fd00:244::5]:53"}: true,
	}
	n, err := DeleteUDP(t.Context(), func(dst, replySrc netip.AddrPort) bool {
		return gone[pair{dst.String(), replySrc.String()}]
	})
	if err != nil || n != 3 {
		t.Errorf("deleted %d, %v, want 3", n, err)
	}
	want := []string{
		"17 10.96.0.10 10.244.0.5 54", "17 10.96.0.10 10.244.0.6 53", "17 10.96.0.11 10.244.0.5 53",
		"17 fd00::96 fd00:244::6 53", "17 fd00::97 fd00:244::5 53", "6 10.96.0.10 10.244.0.5 53",
	}
	if got := flows(t); !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
}

// beside runs something that keeps the thread that is in the namespace, and steps by its side, then ends it.
func beside(t *testing.T, run func(context.Context, func(error)) error, steps func(host *netlink.Handle) error) {
	t.Helper()
	host, err := netlink.NewHandle()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	ctx, cancel := context.WithCancel(t.Context())
	stepped := make(chan error, 1)
	go func() {
		defer cancel()
		stepped <- steps(host)
	}()
	if err := run(ctx, func(err error) { t.Error(err) }); err != nil {
		t.Error(err)
	}
	if err := <-stepped; err != nil {
		t.Error(err)
	}
}

// until waits for something to hold.
func until(holds func() bool) error {
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("it does not come to that within 10 s")
		}
	}
	return nil
}
