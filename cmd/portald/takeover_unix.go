//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/portald/portald/cmd/portald/daemon"
)

// Environment variables of the processes that takeOver starts: the pipe on which the daemon tells that it serves, and
// who has started the daemon.
const (
	servingPipe = "PORTALD_SERVING_PIPE"
	startedBy   = "PORTALD_STARTED_BY"
)

// pipeFile is the descriptor of the pipe: the first of exec.Cmd.ExtraFiles.
const pipeFile = 3

// takeOver has a daemon with the same command line take over from the one that runs, and returns once it serves the
// node. After an error the one that runs goes on. The daemon is started by a process between, which ends at once: so it
// is a child of systemd, which would not wait for the end of anybody else's.
func takeOver(ctx context.Context) error {
	if os.Getenv(servingPipe) != "" {
		next, err := again(os.NewFile(pipeFile, servingPipe), startedBy+"="+strconv.Itoa(os.Getpid()))
		if err != nil {
			return err
		}
		return next.Start()
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = r.Close() })()
	between, err := again(w)
	if err == nil {
		err = between.Run()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("start the next portald: %w", err)
	}
	if n, _ := r.Read(make([]byte, 1)); n != 1 {
		return errors.New("the next portald has ended, as its log says, and the one that runs goes on")
	}
	return nil
}

// again is this program with the same command line, and the pipe.
func again(pipe *os.File, env ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	next := exec.Command(program, os.Args[1:]...)
	next.Stdout, next.Stderr = os.Stdout, os.Stderr
	next.ExtraFiles = []*os.File{pipe}
	next.Env = append(append(slices.Clone(os.Environ()), servingPipe+"="+strconv.Itoa(pipeFile)), env...)
	return next, nil
}

// asSuccessor is the life of a daemon that takeOver has started, if this process is one.
func asSuccessor() (life daemon.Life, is bool) {
	parent, err := strconv.Atoi(os.Getenv(startedBy))
	if err != nil {
		return daemon.Life{}, false
	}
	for os.Getppid() == parent {
		time.Sleep(time.Millisecond) // it has nothing left to do
	}
	for _, name := range []string{servingPipe, startedBy} {
		_ = os.Unsetenv(name) // it cannot fail
	}
	syscall.CloseOnExec(pipeFile)
	w := os.NewFile(pipeFile, servingPipe)
	return daemon.Life{Successor: true, Serving: func() {
		_, _ = w.Write([]byte{1}) // or nobody waits any more
		_ = w.Close()
	}}, true
}
