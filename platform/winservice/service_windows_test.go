package winservice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// asService is the argument by which the SCM runs this test as the service; the next one is how it behaves, and the
// last one the file that it writes to.
const asService = "as-service"

func TestMain(m *testing.M) {
	if at := slices.Index(os.Args, asService); at > 0 {
		how, path := os.Args[at+1], os.Args[at+2]
		if err := Run(func(ctx context.Context, life Life) error { return behave(ctx, life, how, path) }); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// behave is the Program of the test.
func behave(ctx context.Context, life Life, how, path string) error {
	if how == "fail" {
		return errors.New("it was told to fail")
	}
	events, err := OpenEventLog()
	if err != nil {
		return err
	}
	defer events.Close()
	if how == "slow" {
		time.Sleep(3 * time.Second)
	}
	life.Started()
	<-ctx.Done()
	events.Failed(fmt.Errorf("a text for %s", life.Reason()))
	return os.WriteFile(path, []byte(life.Reason()), 0o644)
}

// connect returns the SCM of a host where portald is not installed.
func connect(t *testing.T) *Manager {
	t.Helper()
	m, err := Connect(true)
	if errors.Is(err, errDenied) {
		t.Skip("only an administrator may install services: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if s, err := m.Status(); !IsMissing(err) {
		t.Skipf("portald is installed here, %+v, %v", s, err)
	}
	return m
}

func specOf(t *testing.T, how, path string) Spec {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Spec{program, []string{asService, how, path}}
}

// The test is installed as a service, started, stopped, changed so that it fails, and removed.
func TestService(t *testing.T) {
	m := connect(t)
	path := filepath.Join(t.TempDir(), "with a space.txt")
	spec := specOf(t, "slow", path)
	if created, err := Install(m, spec); err != nil || !created {
		t.Fatal(created, err)
	}
	t.Cleanup(func() {
		if err := Uninstall(t.Context(), m); err != nil && !IsMissing(err) {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	from := time.Now()
	if err := Start(ctx, m); err != nil || time.Since(from) < 3*time.Second {
		t.Fatalf("started after %v: %v", time.Since(from), err)
	}
	s, err := m.Status()
	if err != nil || s.State != Running || s.PID == 0 || !strings.HasPrefix(s.Start, "Automatic") ||
		s.Program != spec.Program || !slices.Equal(s.Args, spec.Args) {
		t.Errorf("%+v, %v", s, err)
	}
	if err := Halt(ctx, m); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "it was asked to stop" {
		t.Errorf("the service wrote %q, %v", text, err)
	}
	if created, err := Install(m, specOf(t, "fail", path)); err != nil || created {
		t.Fatal(created, err)
	}
	if err := Start(ctx, m); err == nil || !strings.Contains(err.Error(), "with exit code 1") {
		t.Errorf("start of what fails: %v", err)
	}
	if s, err := m.Status(); err != nil || s.State != Stopped || s.ExitCode() != 1 || s.Args[1] != "fail" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := Uninstall(ctx, m); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Status(); !IsMissing(err) {
		t.Error(err)
	}
}

// A process that no SCM started says so.
func TestRunWithoutSCM(t *testing.T) {
	err := Run(func(context.Context, Life) error { return nil })
	if !errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) || !strings.Contains(err.Error(), "run portald") {
		t.Error(err)
	}
}

// The source is there once, however often it is installed, and goes.
func TestEventSource(t *testing.T) {
	connect(t)
	t.Cleanup(func() { UninstallEvents() })
	for range 2 {
		if err := InstallEvents(); err != nil {
			t.Fatal(err)
		}
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, sources+`\`+Name, registry.QUERY_VALUE)
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	file, _, err := key.GetStringValue("EventMessageFile")
	if err != nil || !strings.HasSuffix(file, `\EventCreate.exe`) {
		t.Errorf("messages of %q, %v", file, err)
	}
	for range 2 {
		if err := UninstallEvents(); err != nil {
			t.Fatal(err)
		}
	}
}
