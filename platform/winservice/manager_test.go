package winservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// fakeSCM is an SCM with at most one service, which takes its time to start and to stop.
type fakeSCM struct {
	spec      *Spec
	now       Status
	change    time.Time // when now.State is reached
	to        State
	starts    time.Duration
	stops     time.Duration
	fails     uint32            // its exit code, if it does not start
	deleted   bool              // and still open somewhere
	openUntil time.Time         // when it is closed there
	refuse    map[Command]error // of Control
	failing   error             // of Create and Update
	calls     []string
}

func (f *fakeSCM) note(format string, args ...any) {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fakeSCM) Create(s Spec) error {
	f.note("create %s %q", s.Program, s.Args)
	switch {
	case f.failing != nil:
		return f.failing
	case f.deleted:
		return errMarkedDeleted
	case f.spec != nil:
		return errExists
	}
	f.spec, f.now = &s, Status{State: Stopped}
	return nil
}

func (f *fakeSCM) Update(s Spec) error {
	f.note("update %s %q", s.Program, s.Args)
	if f.failing != nil {
		return f.failing
	}
	f.spec = &s
	return nil
}

func (f *fakeSCM) Status() (Status, error) {
	f.settle()
	if f.spec == nil {
		return Status{}, errMissing
	}
	return f.now, nil
}

// settle lets time do its work.
func (f *fakeSCM) settle() {
	if f.to != 0 && !time.Now().Before(f.change) {
		f.now.State, f.to = f.to, 0
		if f.now.State == Stopped && f.fails != 0 {
			f.now.Exit, f.now.Special = exitSpecial, f.fails
		}
	}
	if f.deleted && !time.Now().Before(f.openUntil) {
		f.deleted, f.spec = false, nil
	}
}

func (f *fakeSCM) Control(c Command) error {
	f.settle()
	f.note("control %d", c)
	switch err := f.refuse[c]; {
	case err != nil:
		return err
	case f.spec == nil:
		return errMissing
	case c == StartService:
		return f.start()
	case c == StopService:
		return f.stop()
	}
	f.deleted = true
	return nil
}

func (f *fakeSCM) start() error {
	if f.now.State != Stopped {
		return errRunning
	}
	f.now.State, f.to, f.change = Starting, Running, time.Now().Add(f.starts)
	if f.fails != 0 {
		f.to = Stopped
	}
	return nil
}

func (f *fakeSCM) stop() error {
	switch f.now.State {
	case Stopped:
		return errNotActive
	case Running:
		f.now.State, f.to, f.change = Stopping, Stopped, time.Now().Add(f.stops)
		return nil
	}
	return errCannotAccept
}

func TestInstall(t *testing.T) {
	m := &fakeSCM{}
	for i, args := range [][]string{{"--a"}, {"--b", "c d"}} {
		created, err := Install(m, Spec{`C:\p.exe`, args})
		if err != nil || created != (i == 0) || !slices.Equal(m.spec.Args, args) {
			t.Errorf("%v, %v: %+v", created, err, m.spec)
		}
	}
	want := []string{`create C:\p.exe ["--a"]`, `create C:\p.exe ["--b" "c d"]`, `update C:\p.exe ["--b" "c d"]`}
	if !slices.Equal(m.calls, want) {
		t.Errorf("%q, want %q", m.calls, want)
	}
}

// Each error says what to do, and keeps its number.
func TestErrorsOfTheSCM(t *testing.T) {
	for number, want := range map[syscall.Errno]string{
		errDenied: "error 5: ", errMarkedDeleted: "removed once no program has it open",
		errMissing:  "portald service install",
		errDisabled: "it is disabled", errTimeout: "did not connect", errCannotAccept: "it is starting or stopping",
		syscall.Errno(87): "create the service: ",
	} {
		_, err := Install(&fakeSCM{failing: number}, Spec{})
		if err == nil || !errors.Is(err, number) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", number, err)
		}
	}
	if err := Start(t.Context(), &fakeSCM{}); !IsMissing(err) {
		t.Errorf("start of what is not installed: %v", err)
	}
	if err := Uninstall(t.Context(), &fakeSCM{}); !IsMissing(err) {
		t.Errorf("removal of what is not installed: %v", err)
	}
}

func installed() *fakeSCM {
	return &fakeSCM{spec: &Spec{}, now: Status{State: Stopped}, starts: 3 * time.Second, stops: 20 * time.Second}
}

func TestStartStopUninstall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installed()
		for range 2 { // the second time it runs, and is stopped, already
			if err := Start(t.Context(), m); err != nil || m.now.State != Running {
				t.Fatalf("start: %v, %+v", err, m.now)
			}
		}
		for range 2 {
			if err := Halt(t.Context(), m); err != nil || m.now.State != Stopped {
				t.Fatalf("stop: %v, %+v", err, m.now)
			}
		}
		if err := Start(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := Uninstall(t.Context(), m); err != nil || m.spec != nil {
			t.Fatalf("uninstall: %v, %+v", err, m)
		}
	})
}

// A service that does not start says how it ended; one that takes too long says in which state it is.
func TestStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installed()
		m.fails = 7
		if err := Start(t.Context(), m); err == nil || !strings.Contains(err.Error(), "with exit code 7") {
			t.Error(err)
		}
		m = installed()
		m.starts = time.Hour
		late := errors.New("waited long")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, late)
		defer cancel()
		if err := Start(ctx, m); !errors.Is(err, late) || !strings.Contains(err.Error(), "still Starting") {
			t.Error(err)
		}
		if err := Halt(ctx, m); !errors.Is(err, late) {
			t.Errorf("stop while it starts: %v", err)
		}
		if err := Start(t.Context(), &fakeSCM{spec: &Spec{}, refuse: map[Command]error{StartService: errDenied}}); !errors.Is(
			err, errDenied) || !strings.Contains(err.Error(), "administrator") {
			t.Error(err)
		}
	})
}

// A service that still starts is stopped as soon as it can be.
func TestStopWaitsForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installed()
		if err := m.Control(StartService); err != nil {
			t.Fatal(err)
		}
		if err := Halt(t.Context(), m); err != nil || m.now.State != Stopped {
			t.Errorf("%v, %+v", err, m.now)
		}
	})
}

// A service that another program has open goes when that closes it, and the wait for that is bounded.
func TestUninstallOfWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installed()
		m.openUntil = time.Now().Add(10 * time.Second)
		if err := Uninstall(t.Context(), m); err != nil || m.spec != nil {
			t.Error(err)
		}
		m = installed()
		m.openUntil = time.Now().Add(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := Uninstall(ctx, m); !errors.Is(err, errMarkedDeleted) {
			t.Error(err)
		}
		if _, err := Install(m, Spec{}); !errors.Is(err, errMarkedDeleted) {
			t.Errorf("installed again meanwhile: %v", err)
		}
	})
}
