package winservice

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/portald/portald/platform/backoff"
)

// Installer writes how the service is installed.
type Installer interface {
	Create(Spec) error // fails with 1073 if there is one
	Update(Spec) error // fails with 1060 if there is none
}

// Controller asks and changes what the service does.
type Controller interface {
	Status() (Status, error)
	Control(Command) error
}

// Command is an operation of a Controller.
type Command int

// The commands.
const (
	StartService Command = iota
	StopService
	DeleteService
)

// Status is the service's state as the SCM reports it.
type Status struct {
	State   State
	PID     uint32
	Exit    uint32 // of the last run: an error of Windows
	Special uint32 // of the last run: its own exit code, if Exit is exitSpecial
	Start   string // how it starts: Automatic, Automatic (delayed), Manual or Disabled
	Program string
	Args    []string
}

// The errors of the SCM that are handled, by number: their texts are translated.
const (
	errDenied        = syscall.Errno(5)
	errTimeout       = syscall.Errno(1053)
	errRunning       = syscall.Errno(1056)
	errDisabled      = syscall.Errno(1058)
	errMissing       = syscall.Errno(1060)
	errCannotAccept  = syscall.Errno(1061)
	errNotActive     = syscall.Errno(1062)
	errMarkedDeleted = syscall.Errno(1072)
	errExists        = syscall.Errno(1073)

	exitSpecial = 1066 // ERROR_SERVICE_SPECIFIC_ERROR
)

// IsMissing tells whether an error says that the service is not installed.
func IsMissing(err error) bool { return errors.Is(err, errMissing) }

// explain adds to an error of the SCM what to do.
func explain(doing string, err error) error {
	advice := map[syscall.Errno]string{
		errDenied:        "run this as an administrator (an elevated prompt)",
		errTimeout:       "the program did not connect to the service control manager in time",
		errDisabled:      "it is disabled; run portald service install to enable it",
		errMissing:       "run portald service install first",
		errCannotAccept:  "it is starting or stopping; try again",
		errMarkedDeleted: "it is removed once no program has it open: close the Services window, or restart Windows",
	}
	var number syscall.Errno
	if errors.As(err, &number) && advice[number] != "" {
		return fmt.Errorf("%s: error %d: %w; %s", doing, int(number), err, advice[number])
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Install installs the service, or makes the one that there is as the Spec says. It does not start it.
func Install(m Installer, spec Spec) (created bool, err error) {
	err = m.Create(spec)
	if errors.Is(err, errExists) {
		if err := m.Update(spec); err != nil {
			return false, explain("change the service", err)
		}
		return false, nil
	}
	if err != nil {
		return false, explain("create the service", err)
	}
	return true, nil
}

// pollPeriod is the time between two looks at a service that is about to change.
const pollPeriod = 200 * time.Millisecond

// Start starts the service and waits until it runs. It is no error if it runs already. The error of a service that
// ended while it started has its exit code.
func Start(ctx context.Context, m Controller) error {
	if err := m.Control(StartService); err != nil && !errors.Is(err, errRunning) {
		return explain("start the service", err)
	}
	for {
		s, err := m.Status()
		switch {
		case err != nil:
			return explain("start the service", err)
		case s.State == Running:
			return nil
		case s.State == Stopped:
			return fmt.Errorf("the service ended while it started, with %s", s.ended())
		}
		if err := backoff.Sleep(ctx, pollPeriod); err != nil {
			return fmt.Errorf("the service is still %s: %w", s.State, err)
		}
	}
}

// ended is how the last run ended.
func (s Status) ended() string {
	if s.Exit == exitSpecial {
		return fmt.Sprintf("exit code %d", s.Special)
	}
	return fmt.Sprintf("error %d of Windows", s.Exit)
}

// Halt stops the service and waits until it has ended. It is no error if it does not run.
func Halt(ctx context.Context, m Controller) error {
	for {
		err := m.Control(StopService)
		if err != nil && !errors.Is(err, errNotActive) && !errors.Is(err, errCannotAccept) {
			return explain("stop the service", err)
		}
		s, err := m.Status()
		if err != nil {
			return explain("stop the service", err)
		}
		if s.State == Stopped {
			return nil
		}
		if err := backoff.Sleep(ctx, pollPeriod); err != nil {
			return fmt.Errorf("the service is still %s: %w", s.State, err)
		}
	}
}

// Uninstall stops and removes the service, and waits until it is gone.
func Uninstall(ctx context.Context, m Controller) error {
	if err := Halt(ctx, m); err != nil {
		return err
	}
	if err := m.Control(DeleteService); err != nil {
		return explain("remove the service", err)
	}
	for {
		_, err := m.Status()
		if IsMissing(err) {
			return nil
		}
		if backoff.Sleep(ctx, pollPeriod) != nil {
			return explain("remove the service", errMarkedDeleted)
		}
	}
}

// ExitCode is how the last run ended, 0 without an error.
func (s Status) ExitCode() uint32 {
	if s.Exit == exitSpecial {
		return s.Special
	}
	return s.Exit
}
