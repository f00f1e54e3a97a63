package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/portald/portald/platform/winservice"
)

// The errors of the SCM that the fake returns.
const (
	errMissing = syscall.Errno(1060)
	errExists  = syscall.Errno(1073)
)

// fakeHost has an SCM, a firewall and an event log.
type fakeHost struct {
	spec    *winservice.Spec
	state   winservice.State
	onStart func() winservice.State // what a start leads to
	rule    bool
	source  bool
}

func (h *fakeHost) Create(s winservice.Spec) error {
	if h.spec != nil {
		return errExists
	}
	h.state = winservice.Stopped
	return h.Update(s)
}

func (h *fakeHost) Update(s winservice.Spec) error {
	h.spec = &s
	return nil
}

func (h *fakeHost) Status() (winservice.Status, error) {
	if h.spec == nil {
		return winservice.Status{}, errMissing
	}
	s := winservice.Status{State: h.state, Start: "Automatic (delayed)", Program: h.spec.Program, Args: h.spec.Args}
	if h.state == winservice.Stopped {
		s.Exit, s.Special = 1066, 1
	}
	return s, nil
}

func (h *fakeHost) Control(c winservice.Command) error {
	switch {
	case h.spec == nil:
		return errMissing
	case c == winservice.StartService:
		h.state = h.onStart()
	case c == winservice.StopService:
		h.state = winservice.Stopped
	default:
		h.spec = nil
	}
	return nil
}

func (h *fakeHost) netsh(_ context.Context, args ...string) (int, string, error) {
	switch args[2] {
	case "add":
		h.rule = true
	case "delete":
		h.rule = false
	case "show":
		if !h.rule {
			return 1, "", nil
		}
	}
	return 0, "", nil
}

// rig is `portald service` on a host without the service, in a folder of its own.
func rig(t *testing.T) (*service, *fakeHost, *bytes.Buffer) {
	t.Helper()
	t.Chdir(t.TempDir())
	host, out := &fakeHost{}, &bytes.Buffer{}
	s := &service{
		manager: host, firewall: winservice.Firewall{Netsh: host.netsh}, program: `C:\portald.exe`,
		dir: filepath.Join(t.TempDir(), "portald"), out: out,
	}
	s.events.install = func() error { host.source = true; return nil }
	s.events.uninstall = func() error { host.source = false; return nil }
	return s, host, out
}

// said checks what was printed since the last time.
func said(t *testing.T, out *bytes.Buffer, want string) {
	t.Helper()
	if got := out.String(); !strings.Contains(got, want) {
		t.Errorf("%q, want %q in it", got, want)
	}
	out.Reset()
}

func TestServiceInstall(t *testing.T) {
	s, host, out := rig(t)
	ctx := t.Context()
	if err := s.install(ctx, []string{"--manifests=a b", "--hostname-override=n"}, false); err != nil {
		t.Fatal(err)
	}
	want := []string{"--windows-service", "--manifests=a b", "--hostname-override=n"}
	if !slices.Equal(host.spec.Args, want) || host.spec.Program != `C:\portald.exe` || !host.source || host.rule {
		t.Errorf("%+v, %+v", host.spec, host)
	}
	said(t, out, "The service is installed; portald service start starts it\nThe firewall has no rule for portald")
	if err := s.install(ctx, []string{"--windows-service", "--manifests=c"}, true); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(host.spec.Args, []string{"--windows-service", "--manifests=c"}) || !host.rule {
		t.Errorf("%+v, %+v", host.spec, host)
	}
	said(t, out, "The service is changed, from its next start on\nThe firewall allows portald")
	for range 2 {
		if err := s.uninstall(ctx); err != nil || host.spec != nil || host.rule || host.source {
			t.Errorf("%v: %+v", err, host)
		}
	}
}

// A daemon that would not start is not installed.
func TestServiceInstallOfMistakes(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for args, want := range map[string]string{
		"": "config.yaml", "--nonsense": "unknown flag: --nonsense", "--manifests=x y": "y: the daemon takes flags only",
		"--manifests=x --proxy-mode=magic": "--proxy-mode magic: must be", "--log-level=info": "--kubeconfig or --manifests",
	} {
		s, host, _ := rig(t)
		err := s.install(t.Context(), strings.Fields(args), true)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.dir) {
			t.Errorf("%q: %v", args, err)
		}
		if host.spec != nil || host.rule || host.source {
			t.Errorf("%q: %+v", args, host)
		}
	}
}

// Without arguments the daemon has the configuration file in its folder.
func TestServiceInstallOfDefaults(t *testing.T) {
	s, host, _ := rig(t)
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.dir, "config.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\nmanifests: [x]\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.install(t.Context(), nil, true); err != nil {
		t.Fatal(err)
	}
	if want := []string{"--windows-service", "--config", path}; !slices.Equal(host.spec.Args, want) {
		t.Errorf("%q, want %q", host.spec.Args, want)
	}
}

func TestServiceStatus(t *testing.T) {
	s, host, out := rig(t)
	if err := s.status(); exitCode(err) != exitMissing {
		t.Error(err)
	}
	host.spec = &winservice.Spec{Program: "p.exe", Args: []string{"--a"}}
	for state, code := range map[winservice.State]int{winservice.Stopped: exitStopped, winservice.Starting: exitStopped,
		winservice.Running: 0} {
		host.state = state
		err := s.status()
		if (err == nil) != (code == 0) || err != nil && exitCode(err) != code {
			t.Errorf("%s: %v", state, err)
		}
		said(t, out, "\nportald   "+state.String())
	}
	if exitCode(fmt.Errorf("other: %w", errExists)) != exitOtherwise {
		t.Error("another error has a code of its own")
	}
}

// The error of a service that does not start has what its log says of this start.
func TestServiceStart(t *testing.T) {
	s, host, out := rig(t)
	ctx := t.Context()
	if err := s.start(ctx); exitCode(err) != exitMissing {
		t.Errorf("start of what is not installed: %v", err)
	}
	path := filepath.Join(t.TempDir(), "portald.log")
	host.spec = &winservice.Spec{Args: []string{"--manifests=x", "--log-file=" + path}}
	logs := func(text string, then winservice.State) {
		host.onStart = func() winservice.State {
			file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			fmt.Fprint(file, text)
			return then
		}
	}
	logs("level=error msg=old\n", winservice.Running)
	if err := s.start(ctx); err != nil {
		t.Fatal(err)
	}
	said(t, out, "The service runs")
	logs("level=info msg=start\nlevel=error msg=\"no interface\"\n", winservice.Stopped)
	err := s.start(ctx)
	if want := "with exit code 1; " + path + " says:\n  level=error msg=\"no interface\""; err == nil ||
		!strings.HasSuffix(err.Error(), want) {
		t.Error(err)
	}
	logs("", winservice.Stopped)
	if err := s.start(ctx); err == nil || !strings.Contains(err.Error(), "event log Application") {
		t.Error(err)
	}
	host.spec.Args = append(host.spec.Args, "--retries=99")
	host.onStart = nil // is not called
	if err := s.start(ctx); err == nil || !strings.Contains(err.Error(), "--retries 99: must be from 0 to 15") {
		t.Error(err)
	}
}

// The commands reach the SCM of the host; on other systems than Windows they say in one line that there is none.
func TestServiceCommands(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("TestService of platform/winservice")
	}
	for _, args := range []string{"install", "install -- --manifests=x", "uninstall", "start", "stop", "status"} {
		cmd := root()
		cmd.SetArgs(append([]string{"service"}, strings.Fields(args)...))
		err := cmd.ExecuteContext(t.Context())
		if !errors.Is(err, errors.ErrUnsupported) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", args, err)
		}
	}
	cmd := root()
	cmd.SetArgs([]string{"service", "install", "--manifests"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	cmd = root()
	cmd.SetArgs([]string{"service", "install", "x"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "write -- before") {
		t.Error(err)
	}
}
