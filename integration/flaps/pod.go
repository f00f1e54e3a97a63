//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/topology"
)

// pod is an endpoint of all Services: a namespace with a server for each client.
type pod struct {
	host    *topology.Host
	number  int
	self    string // path of this program
	dir     string // for data and logs
	clients []client
	resets  net.Listener // accepts and resets: see resetting
	running sync.WaitGroup
}

// start runs the servers. They end with ctx or by kill.
func (p *pod) start(ctx context.Context) error {
	for _, c := range p.clients {
		line := c.server(p)
		cmd := p.host.Command(ctx, line[0], line[1:]...)
		log, err := os.OpenFile(filepath.Join(p.dir, c.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		cmd.Stdout, cmd.Stderr = log, log
		err = cmd.Start()
		log.Close()
		if err != nil {
			return fmt.Errorf("start the server of %s: %w", c.name, err)
		}
		p.running.Go(func() { _ = cmd.Wait() }) // killed
	}
	return nil
}

// signal sends a signal to all processes of the pod: all in its network namespace.
func (p *pod) signal(s syscall.Signal) error {
	all, err := p.processes()
	if err != nil {
		return err
	}
	for _, pid := range all {
		if err := unix.Kill(pid, s); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// processes lists those of the namespace. A thread of this program may be in it; the program is not.
func (p *pod) processes() ([]int, error) {
	ns, err := os.Stat(p.host.Path())
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if there, err := os.Stat(filepath.Join("/proc", e.Name(), "ns/net")); err == nil && os.SameFile(ns, there) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// kill ends the processes, and returns when they are gone.
func (p *pod) kill() error {
	if err := p.signal(unix.SIGKILL); err != nil {
		return err
	}
	p.running.Wait()
	for range 100 { // children of servers, which PostgreSQL has
		if left, err := p.processes(); err != nil || len(left) == 0 {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("pod %d: processes were killed and are there", p.number)
}

// freeze stops the processes, and returns when each of their threads is stopped: the kernel tells them one by one, and
// the last may answer meanwhile.
func (p *pod) freeze() error {
	for range 100 {
		if err := p.signal(unix.SIGSTOP); err != nil { // of a process that was forked meanwhile, too
			return err
		}
		all, err := p.processes()
		if err != nil || !slices.ContainsFunc(all, runs) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("pod %d: processes were stopped and run", p.number)
}

// runs tells whether any thread of a process is neither stopped nor gone.
func runs(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return slices.ContainsFunc(threads, func(path string) bool {
		stat, _ := os.ReadFile(path)           // none: it is gone
		name := bytes.LastIndexByte(stat, ')') // proc_pid_stat(5): the state comes after it
		return name > 0 && !bytes.ContainsAny(stat[name+2:name+3], "TtZX")
	})
}

// serves waits until all servers answer; the error names those that do not.
func (p *pod) serves(ctx context.Context, within time.Duration) error {
	var errs error
	for end := time.Now().Add(within); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		errs = nil
		for _, c := range p.clients {
			errs = errors.Join(errs, p.try(ctx, c))
		}
		if errs == nil {
			return nil
		}
	}
	return errors.Join(errs, ctx.Err())
}

// try asks from inside: no fault by rules is in the way.
func (p *pod) try(ctx context.Context, c client) error {
	const limit = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := p.host.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", port(c.service)))
	if err != nil || c.ready == nil {
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit)) // it is open
	return c.ready(conn)
}

// resetPort is where connections are led to be reset.
const resetPort = 9

// openResets starts what accepts connections and resets them, every other one when its first bytes have come.
func (p *pod) openResets() (err error) {
	if p.resets, err = p.host.Listen("tcp", fmt.Sprint(":", resetPort)); err != nil {
		return err
	}
	go func() { // ends with the listener
		for late := false; ; late = !late {
			c, err := p.resets.Accept()
			if err != nil {
				return
			}
			go resetting(c.(*net.TCPConn), late)
		}
	}()
	return nil
}

func resetting(c *net.TCPConn, late bool) {
	if late {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = c.Read(make([]byte, 1))
	}
	_ = c.SetLinger(0) // Close resets
	c.Close()
}

// nft runs commands of nft in the pod.
func (p *pod) nft(ctx context.Context, commands string) error {
	cmd := p.host.Command(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(commands)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft in pod %d: %w\n%s", p.number, err, out)
	}
	return nil
}

// prepare makes the pod's folder and starts everything in it.
func (p *pod) prepare(ctx context.Context, postgres string) error {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	for _, c := range p.clients {
		if c.name == pgbench {
			if err := copyPostgres(ctx, postgres, filepath.Join(p.dir, "postgres")); err != nil {
				return err
			}
		}
	}
	return errors.Join(p.openResets(), p.start(ctx))
}

func (p *pod) close() error {
	if p.resets != nil {
		p.resets.Close()
	}
	return p.kill()
}
