package topology

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// stateKey is the environment variable in which the state crosses the re-execution: inside, or else why not.
const stateKey = "PORTALD_TOPOLOGY"

const inside = "inside"

// Enter moves the program into namespaces of its own. Call it first thing in main or TestMain. It runs the program
// again inside, with the same arguments and standard streams, passes signals on and exits with its exit code; in that
// second run it returns. Where namespaces are not to be had it returns too, and New and Require tell why.
func Enter() {
	if Check() == nil {
		return
	}
	if os.Getenv(stateKey) == stateKey {
		settle()
		return
	}
	var reasons []error
	for _, flags := range namespaceSets() {
		code, err := reenter(flags)
		if err == nil {
			os.Exit(code)
		}
		reasons = append(reasons, err)
	}
	os.Setenv(stateKey, "cannot make namespaces: "+errors.Join(reasons...).Error())
}

// Check returns nil inside, and else an error that says why the program is not.
func Check() error {
	switch state := os.Getenv(stateKey); state {
	case inside:
		return nil
	case "", stateKey:
		return errors.New("topology.Enter was not called")
	default:
		return errors.New(state)
	}
}

// namespaceSets lists the sets of namespaces to try, best first. Without a process namespace, which needs a /proc that
// may be mounted, the children of a killed program outlive it, and keep their namespaces until they end.
func namespaceSets() []uintptr {
	const (
		bare = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET
		user = bare | syscall.CLONE_NEWUSER
		pid  = syscall.CLONE_NEWPID
	)
	if os.Geteuid() == 0 {
		return []uintptr{bare | pid, user | pid, user}
	}
	return []uintptr{user | pid, user}
}

// reenter runs the program inside new namespaces and returns its exit code, or an error when it did not get there.
func reenter(flags uintptr) (int, error) {
	runtime.LockOSThread() // Pdeathsig is about the thread that started the child
	defer runtime.UnlockOSThread()
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	cmd := command(flags, w)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	defer signal.Stop(signals)
	err = cmd.Start()
	w.Close()
	if err != nil {
		return 0, err
	}
	go forward(signals, cmd.Process) // ends with the program: both callers leave soon after this one returns
	reason, _ := io.ReadAll(r)
	err = cmd.Wait()
	if len(reason) > 0 {
		return 0, errors.New(string(reason))
	}
	return exitCode(cmd.ProcessState, err)
}

func command(flags uintptr, settled *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{settled}
	cmd.Env = append(os.Environ(), stateKey+"="+stateKey)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if flags&syscall.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

func forward(signals <-chan os.Signal, to *os.Process) {
	for s := range signals {
		_ = to.Signal(s) // it has ended, and so shall we
	}
}

// exitCode is the shell's: 128 and the signal for a killed program.
func exitCode(state *os.ProcessState, err error) (int, error) {
	if state == nil {
		return 0, err
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return state.ExitCode(), nil
}

// settle is the first act inside: it makes the namespaces fit to live in, or tells the program outside and exits.
func settle() {
	told := os.NewFile(3, "told")
	if err := mounts(); err != nil {
		fmt.Fprint(told, err)
		os.Exit(1)
	}
	if err := setUp("lo"); err != nil {
		fmt.Fprint(told, err)
		os.Exit(1)
	}
	told.Close()
	os.Setenv(stateKey, inside)
}

// mounts hides /run, where namespaces' names and xtables.lock stand, and shows the processes of our own namespace.
func mounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if os.Getpid() == 1 {
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return fmt.Errorf("mount /proc: %w", err)
		}
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount a tmpfs at /run: %w", err)
	}
	return os.MkdirAll("/run/lock", 0o1777)
}
