//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/load"
)

// placement says on which of two processors client, proxy and server run. The kernel moves them by what a processor did
// in the last microseconds, and where they meet decides more than the proxy does.
type placement struct {
	name, label           string
	proxy, client, server int
}

func placements() []placement {
	return []placement{
		{"together", "on one CPU", 0, 0, 0},
		{"near", "server on a separate CPU", 0, 0, 1},
		{"apart", "proxy on a separate CPU", 0, 1, 1},
	}
}

// placedWorkload measures single exchanges in one placement.
func placedWorkload(at placement, c load.RR) workload {
	label := fmt.Sprintf("request/response, %d connection, %s", c.Conns, at.label)
	return workload{
		name: "rr1-" + at.name, label: label, among: everyone, placed: true, figures: exchangeFigures(label),
		run: func(ctx context.Context, b *bed, p plan) (f figures, err error) {
			away, err := b.place(at)
			if err == nil {
				f, err = b.exchange(ctx, c, p.span)
			}
			return f, errors.Join(err, away())
		},
	}
}

// place moves the processes. The returned function, never nil, lets the kernel place them again.
func (b *bed) place(at placement) (away func() error, err error) {
	cpus, err := processors()
	if err == nil && len(cpus) < 2 {
		err = errors.New("this machine has one CPU, and a placement is one on two")
	}
	if err != nil {
		return func() error { return nil }, err
	}
	b.clientOn = strconv.Itoa(cpus[at.client])
	err = b.move([]int{cpus[at.proxy]}, []int{cpus[at.server]})
	return func() error {
		b.clientOn = ""
		return b.move(cpus, cpus)
	}, err
}

// processors lists those that this process may use.
func processors() (all []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("list the CPUs: %w", err)
	}
	for cpu := 0; len(all) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all, nil
}

// move has the proxy and the servers run on the given processors.
func (b *bed) move(proxy, servers []int) error {
	pids, err := b.processes()
	for _, pid := range pids {
		err = errors.Join(err, moveProcess(pid, proxy))
	}
	for _, s := range b.servers {
		err = errors.Join(err, moveProcess(s.Process.Pid, servers))
	}
	return err
}

// moveProcess moves all threads of a process. One that starts meanwhile is where the thread is that started it.
func moveProcess(pid int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	for range 2 {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("move thread %d of process %d: %w", tid, pid, err)
			}
		}
	}
	return nil
}
