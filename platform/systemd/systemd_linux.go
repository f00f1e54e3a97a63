package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/dbus"
)

// answerTime bounds each answer of systemd.
const answerTime = 10 * time.Second

// Runs tells whether systemd runs this process, and listens to it.
func Runs() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// Notify tells systemd something, in lines such as READY=1, and returns when it has taken notice. Without systemd it
// does nothing.
func Notify(lines ...string) error {
	if !Runs() {
		return nil
	}
	if err := send(lines); err != nil {
		return err
	}
	return barrier()
}

// send sends one message with descriptors, which stay open here.
func send(lines []string, files ...*os.File) error {
	to := &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"}) // package net sends rights to an address only
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer c.Close()
	var rights []byte
	if len(files) > 0 {
		var all []int
		for _, f := range files {
			all = append(all, int(f.Fd()))
		}
		rights = syscall.UnixRights(all...)
	}
	_ = c.SetWriteDeadline(time.Now().Add(answerTime)) // it cannot fail on a socket that is open
	if _, _, err = c.WriteMsgUnix([]byte(strings.Join(lines, "\n")), rights, to); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// barrier waits until systemd has processed what was sent: it closes the other end of a pipe. One before version 246
// ignores that, and closes it too.
func barrier() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	err = send([]string{"BARRIER=1"}, w)
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	_ = r.SetReadDeadline(time.Now().Add(answerTime)) // it cannot fail on a pipe
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("wait for systemd: %w", err)
	}
	return nil
}

// Passed are the descriptors that systemd has passed to this process, by name. They are the caller's: a second call
// returns none.
func Passed() map[string]*os.File {
	all := map[string]*os.File{}
	for _, f := range activation.Files(true) {
		all[f.Name()] = f
	}
	return all
}

// Store has systemd keep descriptors, which stay open here too, for the next process of the unit, and returns once it
// has them.
func Store(ctx context.Context, all map[string]*os.File) error {
	for name, f := range all {
		if err := send([]string{"FDSTORE=1", "FDNAME=" + name, "FDPOLL=0"}, f); err != nil {
			return err
		}
	}
	if err := barrier(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, unit, err := ask(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.GetServicePropertyContext(ctx, unit, "NFileDescriptorStore")
	if err != nil {
		return fmt.Errorf("ask systemd what it stores of %s: %w", unit, err)
	}
	if n, ok := p.Value.Value().(uint32); !ok || int(n) < len(all) {
		return fmt.Errorf("systemd stores %v descriptors of %s, not %d: FileDescriptorStoreMax= is less, or "+
			"NotifyAccess= is none", p.Value, unit, len(all))
	}
	return nil
}

// Forget has systemd close stored descriptors.
func Forget(names ...string) error {
	for _, name := range names {
		if err := send([]string{"FDSTOREREMOVE=1", "FDNAME=" + name}); err != nil {
			return err
		}
	}
	return barrier()
}

// Restarts tells whether systemd is about to start the unit of this process again once it has ended: systemctl restart.
func Restarts(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, unit, err := ask(ctx)
	if err != nil {
		return false, err
	}
	defer c.Close()
	jobs, err := c.ListJobsContext(ctx)
	if err != nil {
		return false, fmt.Errorf("ask systemd why %s stops: %w", unit, err)
	}
	return slices.ContainsFunc(jobs, func(j dbus.JobStatus) bool {
		return j.Unit == unit && j.JobType == "restart"
	}), nil
}

// ask connects to systemd itself, which needs no message bus, and returns the unit of this process.
func ask(ctx context.Context) (c *dbus.Conn, unit string, err error) {
	c, err = dbus.NewSystemdConnectionContext(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("connect to systemd: %w", err)
	}
	unit, err = c.GetUnitNameByPID(ctx, uint32(os.Getpid()))
	if err != nil {
		c.Close()
		return nil, "", fmt.Errorf("ask systemd for the unit of this process: %w", err)
	}
	return c, unit, nil
}
