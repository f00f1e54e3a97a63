package handover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// manager is a systemd that is process 1 of the node, with the unit of deploy/ and no other.
type manager struct {
	*bed.Bed
	pid   int // of systemd, as the test sees it
	local string
	log   string
}

const unit = "portald.service"

// newManager starts systemd in namespaces of its own.
func newManager(t *testing.T) *manager {
	t.Helper()
	program := ""
	for _, p := range []string{"/usr/lib/systemd/systemd", "/lib/systemd/systemd"} {
		if _, err := os.Stat(p); err == nil {
			program = p
			break
		}
	}
	if program == "" {
		topology.Lack(t, "needs systemd, and there is none here")
	}
	for _, c := range []string{"systemctl", "unshare", "nsenter", "mount"} {
		if _, err := exec.LookPath(c); err != nil {
			topology.Lack(t, "needs systemd and util-linux: %v", err)
		}
	}
	group := newControlGroup(t)
	b := bed.New(t)
	m := &manager{Bed: b, local: filepath.Join(b.Dir, "local"), log: filepath.Join(b.Dir, "log", "portald.log")}
	m.install()
	script := fmt.Sprintf(`set -e
mount --make-rprivate /
mount -t cgroup2 none /sys/fs/cgroup
mount -t proc proc /proc
mount -t tmpfs none /run
mkdir -p /run/systemd
mount --bind %[1]s/local /usr/local
mount --bind %[1]s/log /var/log
export container=test SYSTEMD_UNIT_PATH=%[1]s/units SYSTEMD_GENERATOR_PATH=%[1]s/none
export SYSTEMD_ENVIRONMENT_GENERATOR_PATH=%[1]s/none
exec %[2]s --system --unit=bed.target --log-target=console --show-status=0`, b.Dir, program)
	cmd := b.Node.Command(t.Context(), "sh", "-c", `echo $$ > "$1/cgroup.procs" && exec unshare --mount --pid --fork `+
		`--kill-child --cgroup --ipc --uts sh -c "$2"`, "sh", group, script)
	var out bed.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	b.Must(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			log, _ := os.ReadFile(m.log)
			t.Logf("systemd: %s\nportald:\n%s", &out, log[max(0, len(log)-12000):])
		}
	})
	started := bed.Within(bed.Patience, func() bool {
		m.pid = child(cmd.Process.Pid)
		return m.pid != 0 && m.do("systemctl", "is-active", "bed.target") == nil
	})
	if !started {
		_ = cmd.Process.Kill()
		topology.Lack(t, "systemd does not start in namespaces of its own here: %s", &out)
	}
	return m
}

// newControlGroup makes a control group for systemd.
func newControlGroup(t *testing.T) string {
	t.Helper()
	var errs []error
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			errs = append(errs, err)
			continue
		}
		group, err := os.MkdirTemp(root, "portald-test-")
		if err == nil {
			t.Cleanup(func() { removeGroup(t, group) })
			return group
		}
		errs = append(errs, err)
	}
	topology.Lack(t, "needs a control group for systemd: %v", errors.Join(errs...))
	return ""
}

// removeGroup removes a control group and all below it, once their processes have ended.
func removeGroup(t *testing.T, group string) {
	t.Helper()
	var last error
	if !bed.Within(bed.Patience, func() bool {
		last = filepath.WalkDir(group, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Remove(path) // the next round removes those that are not empty yet
			}
			return nil
		})
		_, last = os.Stat(group)
		return os.IsNotExist(last)
	}) {
		t.Errorf("control group %s is left: %v", group, last)
	}
}

// child returns a process that another one has started, 0 for none.
func child(of int) int {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range all {
		text, _ := os.ReadFile(file)
		if _, rest, ok := strings.Cut(string(text), ") "); ok {
			if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(of) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				return pid
			}
		}
	}
	return 0
}

// install writes the node's files: portald, the unit of deploy/, and the settings of it that a test changes.
func (m *manager) install() {
	m.Helper()
	text, err := os.ReadFile("../../deploy/" + unit)
	m.Must(err)
	units := filepath.Join(m.Dir, "units")
	m.WriteFile(filepath.Join(units, unit), string(text))
	m.WriteFile(filepath.Join(units, "bed.target"), "[Unit]\nDefaultDependencies=no\n")
	m.WriteFile(filepath.Join(units, "network-online.target"), "[Unit]\nDefaultDependencies=no\n")
	args := "--manifests=/usr/local/services.yaml --log-level=debug --hostname-override=here --on-exit=remove " +
		"--connection-log=/var/log/portald/records --connection-log-format=json"
	m.WriteFile(filepath.Join(units, unit+".d", "test.conf"), fmt.Sprintf("[Unit]\nDefaultDependencies=no\n[Service]\n"+
		"EnvironmentFile=\nEnvironment=GORACE=atexit_sleep_ms=0 \"PORTALD_ARGS=%s\"\n"+
		"StandardOutput=append:%[2]s\nStandardError=append:%[2]s\n", args, m.log))
	m.WriteFile(m.log, "")
	m.WriteFile(filepath.Join(m.local, "services.yaml"), m.Cart(0))
	m.putProgram()
	for _, dir := range []string{m.Dir, m.local, filepath.Join(m.local, "bin")} {
		m.Must(os.Chmod(dir, 0o755))
	}
}

// putProgram puts a new copy of portald in the place of the one that is there.
func (m *manager) putProgram() {
	m.Helper()
	in, err := os.Open(bed.Portald)
	m.Must(err)
	defer in.Close()
	m.replaceProgram(in)
}

func (m *manager) replaceProgram(from io.Reader) {
	m.Helper()
	path := filepath.Join(m.local, "bin", "portald")
	m.Must(os.MkdirAll(filepath.Dir(path), 0o755))
	out, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	m.Must(err)
	_, err = io.Copy(out, from)
	m.Must(errors.Join(err, out.Close()))
	m.Must(os.Rename(path+".new", path))
}

// do runs a command where systemd runs.
func (m *manager) do(args ...string) error {
	_, err := m.output(args...)
	return err
}

func (m *manager) output(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*bed.Patience)
	defer cancel()
	enter := []string{"-t", strconv.Itoa(m.pid), "--mount", "--pid", "--cgroup", "--ipc", "--uts", "--net"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, &errOut)
	}
	return strings.TrimSpace(string(out)), err
}

// show is a property of the unit.
func (m *manager) show(property string) string {
	m.Helper()
	value, err := m.output("systemctl", "show", "--value", "-p", property, unit)
	m.Must(err)
	return value
}

// program tells apart the files that the main process may run.
func (m *manager) program() string {
	m.Helper()
	inode, err := m.output("stat", "-L", "-c", "%i", "/proc/"+m.show("MainPID")+"/exe")
	m.Must(err)
	return inode
}

// No connection ends, and none is refused, while systemd restarts portald, reloads it, and fails to. A stop drains.
func TestSystemd(t *testing.T) {
	m := newManager(t)
	before := m.Rules()
	m.ServePods(0)
	m.Must(m.do("systemctl", "start", unit))
	if s := m.show("StatusText"); s != "Serves the node" {
		t.Errorf("once it has started systemd shows %q", s)
	}
	at := bed.HostPort(bed.IP4, 80)
	c, r, _ := m.Open(at)
	udp, err := bed.Dial(bed.Patience, m.Client, "udp", at)
	m.Must(err)
	defer udp.Close()
	stop := m.Load(at)
	goesOn := func(after string) {
		t.Helper()
		if err := bed.Echoes(c, r); err != nil {
			t.Fatalf("the open connection after %s: %v", after, err)
		}
		_ = udp.SetDeadline(time.Now().Add(bed.AnswerTimeout))
		if _, err := bed.AskUDP(udp); err != nil {
			t.Errorf("UDP after %s: %v", after, err)
		}
		if s := m.show("ActiveState"); s != "active" {
			t.Errorf("after %s the unit is %s", after, s)
		}
		m.Eventually("systemd to store nothing after "+after, func() bool { return m.show("NFileDescriptorStore") == "0" })
	}
	goesOn("the start")

	main := m.show("MainPID")
	for range 3 {
		m.Must(m.do("systemctl", "restart", unit))
		goesOn("a restart")
		if next := m.show("MainPID"); next == main {
			t.Error("the same process runs after a restart")
		} else {
			main = next
		}
	}

	old := m.program()
	m.putProgram()
	m.Must(m.do("systemctl", "reload", unit))
	goesOn("a reload")
	if m.program() == old {
		t.Error("the old program runs after a reload")
	}

	main = m.show("MainPID")
	m.replaceProgram(strings.NewReader("#!/bin/sh\nexit 1\n"))
	if m.do("systemctl", "reload", unit) == nil {
		t.Error("the reload with a broken program does not fail")
	}
	goesOn("a reload with a broken program")
	if next := m.show("MainPID"); next != main {
		t.Errorf("process %s runs after a reload with a broken program, before it %s", next, main)
	}

	m.putProgram()
	m.Must(m.do("systemctl", "restart", unit))
	goesOn("a restart after a reload")
	if n := m.show("NRestarts"); n != "0" {
		t.Errorf("systemd has started it again %s times by itself", n)
	}
	answers, failed := stop()
	if len(failed) > 0 {
		t.Errorf("%d of %d new connections failed, first with: %v", len(failed), answers[bed.PodName(0)], failed[0])
	}

	stopped := make(chan error, 1)
	go func() { stopped <- m.do("systemctl", "stop", unit) }()
	m.Eventually("the drain", func() bool {
		log, err := os.ReadFile(m.log)
		return err == nil && bytes.Contains(log, []byte("Draining: 1 connection"))
	})
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("the open connection while portald drains: %v", err)
	}
	c.Close()
	m.Must(<-stopped)
	if after := m.Rules(); after != before {
		t.Errorf("rules are left:\n%s", after)
	}
}
