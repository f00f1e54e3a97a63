package winservice

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"
)

// configure sets what is the same of every installation. A system that does not have a setting goes without it: all
// releases of Windows that Kubernetes supports have each, Wine does not.
func configure(s *mgr.Service) error {
	about, err := syscall.UTF16PtrFromString(description)
	if err != nil {
		return err
	}
	timeout := uint32(PreshutdownTimeout.Milliseconds())
	list := utf16.Encode([]rune(strings.Join(privileges(), "\x00") + "\x00\x00"))
	required := &list[0]
	for _, c := range []struct {
		what  string
		level uint32
		info  unsafe.Pointer
	}{
		{"description", windows.SERVICE_CONFIG_DESCRIPTION, unsafe.Pointer(&windows.SERVICE_DESCRIPTION{Description: about})},
		{"delayed start", windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO,
			unsafe.Pointer(&windows.SERVICE_DELAYED_AUTO_START_INFO{IsDelayedAutoStartUp: 1})},
		{"restarts after errors", windows.SERVICE_CONFIG_FAILURE_ACTIONS_FLAG,
			unsafe.Pointer(&windows.SERVICE_FAILURE_ACTIONS_FLAG{FailureActionsOnNonCrashFailures: 1})},
		{"time before a shutdown", windows.SERVICE_CONFIG_PRESHUTDOWN_INFO, unsafe.Pointer(&timeout)},
		{"privileges", windows.SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO, unsafe.Pointer(&required)},
	} {
		err := windows.ChangeServiceConfig2(s.Handle, c.level, (*byte)(c.info))
		if err != nil && !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
			return fmt.Errorf("set its %s: %w", c.what, err)
		}
	}
	return setRestarts(s)
}

func setRestarts(s *mgr.Service) error {
	var actions []mgr.RecoveryAction
	for _, pause := range restarts() {
		actions = append(actions, mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: pause})
	}
	if err := s.SetRecoveryActions(actions, uint32(restartReset/time.Second)); err != nil {
		return fmt.Errorf("set its restarts after failures: %w", err)
	}
	return nil
}
