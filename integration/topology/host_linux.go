package topology

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Path is the file that stands for the namespace.
func (h *Host) Path() string { return filepath.Join("/run/netns", h.Name) }

// Command is exec.CommandContext in the host's network namespace. The process it starts is the command itself, heads a
// process group of its own, and at the end of ctx the whole group is killed.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	args = append([]string{"--net=" + h.Path(), "--", name}, args...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	// and no Pdeathsig: Do throws threads away that have started others
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// Do runs f on a thread in the host's network namespace, and throws the thread away. Sockets that f opens stay in the
// namespace and may be used from anywhere; goroutines that f starts are not in it, and commands that f starts are, but
// belong to the thread: use Command for those. A failed test in f ends f and is an error here.
func (h *Host) Do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errEndedEarly
		defer func() { done <- err }()
		runtime.LockOSThread() // never unlocked: the runtime ends the thread with the goroutine
		if failed := h.enter(); failed != nil {
			err = failed
			return
		}
		err = f()
	}()
	return <-done
}

var errEndedEarly = errors.New("the function did not return, as after a failed test")

func (h *Host) enter() error {
	ns, err := os.Open(h.Path())
	if err != nil {
		return fmt.Errorf("open namespace: %w", err)
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", h.Name, err)
	}
	return nil
}

// Dial connects from the host, to an address given as numbers.
func (h *Host) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = h.Do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen is net.Listen on the host.
func (h *Host) Listen(network, address string) (l net.Listener, err error) {
	err = h.Do(func() error {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// ListenPacket is net.ListenPacket on the host.
func (h *Host) ListenPacket(network, address string) (c net.PacketConn, err error) {
	err = h.Do(func() error {
		c, err = net.ListenPacket(network, address)
		return err
	})
	return c, err
}

// Sysctl sets a value of the namespace, named as a path under /proc/sys/net: "ipv4/ip_forward".
func (h *Host) Sysctl(name, value string) error {
	return h.Do(func() error { return writeSysctl(name, value) })
}

func writeSysctl(name, value string) error {
	if err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0); err != nil {
		return fmt.Errorf("set sysctl net/%s: %w", name, err)
	}
	return nil
}
