package plane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is one run of a program.
type process struct {
	program *program
	cmd     *exec.Cmd
	log     string
	done    chan struct{} // closed when it has ended
}

// start runs a program and waits until it is ready.
func (p *plane) start(ctx context.Context, g *program) error {
	if g.running != nil {
		return fmt.Errorf("start %s: it runs", g.name)
	}
	r, err := p.spawn(g)
	if err != nil {
		return fmt.Errorf("start %s: %w", g.name, err)
	}
	g.running = r
	p.ready.PIDs[g.name] = r.cmd.Process.Pid
	return p.await(ctx, r)
}

func (p *plane) spawn(g *program) (*process, error) {
	r := &process{program: g, log: g.log(p.dir), done: make(chan struct{})}
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r.cmd = exec.Command("/proc/self/exe", append([]string{g.name}, g.args...)...)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // an interrupt is for us alone
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go p.reap(r)
	return r, nil
}

// reap waits for the end of a process and reports it, if anybody is there to hear.
func (p *plane) reap(r *process) {
	_ = r.cmd.Wait() // its state tells
	close(r.done)
	p.ended <- r
}

// lost is the error that ends everything, if r is a process that should run.
func (p *plane) lost(r *process) error {
	if r.program.running != r {
		return nil
	}
	r.program.running = nil
	return r.failure()
}

func (r *process) failure() error {
	return fmt.Errorf("%s has ended (%v) and said:\n%s", r.program.name, r.cmd.ProcessState, tail(r.log))
}

// patience is how long a program may take to end, or to stand still, when it is asked to.
const patience = 20 * time.Second

// stop asks a program to end, and waits until it has.
func (g *program) stop() error {
	r := g.running
	g.running = nil
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	_ = r.cmd.Process.Signal(syscall.SIGCONT) // it may be paused
	select {
	case <-r.done:
		return nil
	case <-time.After(patience):
		_ = r.cmd.Process.Kill()
		<-r.done
		return fmt.Errorf("stop %s: it did not end in %v and was killed", g.name, patience)
	}
}

func (g *program) kill() {
	r := g.running
	g.running = nil
	_ = r.cmd.Process.Kill() // it may have ended
	<-r.done
}

// pause returns when all of the process stands still: a request sent the moment after is not answered.
func (g *program) pause() error {
	r := g.running
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if stands, err := r.stands(); stands || err != nil {
			return err
		}
	}
	return fmt.Errorf("pause %s: it went on for %v", g.name, patience)
}

// stands tells whether every thread of the process is stopped, as the kernel reports to its parent.
func (r *process) stands() (bool, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, r.cmd.Process.Pid, &info, unix.WSTOPPED|unix.WNOWAIT|unix.WNOHANG, nil)
	return info.Signo != 0, err
}

func (g *program) resume() error { return g.running.cmd.Process.Signal(syscall.SIGCONT) }
