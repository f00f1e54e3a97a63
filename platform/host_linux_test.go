package platform

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/portald/portald/platform/netnstest"
)

// inNamespace moves the test into a network namespace of its own for good.
func inNamespace(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	handle, err := netns.New()
	if err != nil {
		netnstest.Missing(t, "needs a network namespace of its own (root, or `unshare -rn`): %v", err)
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
