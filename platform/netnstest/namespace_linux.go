// Package netnstest gives tests network namespaces of their own, and links between them.
package netnstest

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
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

// Main is a TestMain for tests that have namespaces: without root, it runs them in a user namespace of their own.
func Main(m *testing.M) {
	flag.Parse()
	if !testing.Short() && os.Geteuid() != 0 {
		again(syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET)
	}
	os.Exit(m.Run())
}

// Alone runs this process again in a network namespace of its own, with loopback up, and returns there: other processes
// have no port of it. With -short, or where no namespace is to be had, it returns where it is.
func Alone() {
	if testing.Short() {
		return
	}
	flags := uintptr(syscall.CLONE_NEWNET)
	if os.Geteuid() != 0 {
		flags |= syscall.CLONE_NEWUSER
	}
	if again(flags); os.Getenv(againVariable) == first {
		err := errors.Join(os.Setenv(againVariable, "its child"), loopbackUp(), noDAD())
		if err != nil {
			fmt.Fprintln(os.Stderr, "netnstest:", err)
			os.Exit(1)
		}
	}
}

// againVariable is set in the environment of a process that has namespaces of its own: to first if it was started by
// again, and to something else in those that it starts.
const (
	againVariable = "NETNSTEST_AGAIN"
	first         = "first"
)

// again runs this process in new namespaces, and ends with it. It returns there, and where none are to be had: what
// needs one says so.
func again(flags uintptr) {
	if os.Getenv(againVariable) != "" {
		return
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), againVariable+"="+first)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if flags&syscall.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // Pdeathsig is of the thread
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(max(1, exit.ExitCode())) // -1 is a signal
	}
}

// Elsewhere tells whether tests of a part of make test-all, such as ipvs, are left to that part, as OTHER_PARTS says.
func Elsewhere(part string) bool {
	return slices.Contains(strings.Fields(os.Getenv("OTHER_PARTS")), part)
}

// Namespace is a network namespace of a test's own, with loopback up. It ends with the test.
type Namespace struct {
	t      testing.TB
	handle netns.NsHandle
}

// New makes a namespace; the calling goroutine stays where it is.
func New(t testing.TB) *Namespace {
	t.Helper()
	notShort(t)
	made := make(chan error)
	n := &Namespace{t: t}
	go func() { // its thread ends with it, changed as it is
		runtime.LockOSThread()
		var err error
		if n.handle, err = netns.New(); err == nil {
			err = errors.Join(loopbackUp(), noDAD())
		}
		made <- err
	}()
	if err := <-made; err != nil {
		Missing(t, "needs a network namespace of its own (root, or a user namespace): %v", err)
	}
	t.Cleanup(func() { n.handle.Close() })
	return n
}

// notShort skips a test with -short, which is for what needs no privilege.
func notShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a network namespace, and this is -short")
	}
}

// Process is the namespace that this process was started in, for a process that was given one of its own: what any of
// its goroutines opens is there. Loopback is up.
func Process(t testing.TB) *Namespace {
	t.Helper()
	notShort(t)
	handle, err := netns.Get()
	if err != nil {
		t.Fatalf("open the namespace of this process: %v", err)
	}
	n := &Namespace{t: t, handle: handle}
	t.Cleanup(func() { n.handle.Close() })
	n.Must(func() error { return errors.Join(loopbackUp(), noDAD()) })
	return n
}

// Enter makes a namespace and moves the calling goroutine into it for good: what it opens and runs from now on is
// there. Goroutines that it starts are not.
func Enter(t testing.TB) *Namespace {
	t.Helper()
	n := New(t)
	runtime.LockOSThread()
	if err := netns.Set(n.handle); err != nil {
		t.Fatalf("enter the namespace: %v", err)
	}
	return n
}

// Do runs f in the namespace and returns when it ends. Sockets that f opens stay there. f must not end the test.
func (n *Namespace) Do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(n.handle); err != nil {
			done <- fmt.Errorf("enter the namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// Must is Do, and fails the test on an error.
func (n *Namespace) Must(f func() error) {
	n.t.Helper()
	if err := n.Do(f); err != nil {
		n.t.Fatal(err)
	}
}

// Link makes a veth pair between two namespaces, with the names and addresses given ("192.0.2.1/24", either family).
func Link(a, b *Namespace, nameA, nameB string, addrsA, addrsB []string) {
	a.t.Helper()
	a.Must(func() error {
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: nameA}, PeerName: nameB}
		pair.PeerNamespace = netlink.NsFd(b.handle)
		if err := netlink.LinkAdd(pair); err != nil {
			return fmt.Errorf("add veth %s: %w", nameA, err)
		}
		return Up(nameA, addrsA)
	})
	b.Must(func() error { return Up(nameB, addrsB) })
	a.Must(func() error { return carries(nameA, addrsA) })
	b.Must(func() error { return carries(nameB, addrsB) })
}

// carries waits until a link carries packets, which with IPv6 is some time after both of its ends are up, and until its
// addresses lead here: the kernel makes those routes of IPv6 later, in a queue that all namespaces share.
func carries(name string, addrs []string) error {
	for start := time.Now(); time.Since(start) < linkTime; time.Sleep(time.Millisecond) {
		link, err := netlink.LinkByName(name)
		if err == nil && link.Attrs().OperState == netlink.OperUp && !slices.ContainsFunc(addrs, elsewhere) {
			return nil
		}
	}
	return fmt.Errorf("%s does not carry", name)
}

const linkTime = 5 * time.Second // the kernel takes up to one

// elsewhere tells whether an address of a link does not lead here.
func elsewhere(addr string) bool {
	ip, _, err := net.ParseCIDR(addr)
	if err != nil {
		return true
	}
	routes, err := netlink.RouteGet(ip)
	return err != nil || len(routes) == 0 || routes[0].Type != unix.RTN_LOCAL
}

// Up gives addresses ("192.0.2.1/24", either family) to a link of this namespace and sets it up.
func Up(name string, addrs []string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	for _, text := range addrs {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("give %s to %s: %w", text, name, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

func loopbackUp() error { return Up("lo", nil) }

// noDAD makes IPv6 use addresses of links at once, without duplicate address detection.
func noDAD() error {
	err := Sysctl("net/ipv6/conf/default/accept_dad", "0")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sysctl sets one of this namespace, named by its path below /proc/sys.
func Sysctl(name, value string) error { return os.WriteFile("/proc/sys/"+name, []byte(value), 0) }

// RouteAll sends everything in this namespace to gateways, one of each family.
func RouteAll(via ...string) error {
	for _, gateway := range via {
		if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)}); err != nil {
			return fmt.Errorf("route to %s: %w", gateway, err)
		}
	}
	return nil
}
