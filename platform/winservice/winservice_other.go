//go:build !windows

package winservice

import (
	"errors"
	"fmt"
	"runtime"
)

// unsupported is the error of everything here.
func unsupported() error {
	return fmt.Errorf("the service control manager is a part of Windows, and this is %s: %w", runtime.GOOS,
		errors.ErrUnsupported)
}

// Run fails.
func Run(Program) error { return unsupported() }

// OpenEventLog fails.
func OpenEventLog() (*EventLog, error) { return nil, unsupported() }

// InstallEvents fails.
func InstallEvents() error { return unsupported() }

// UninstallEvents fails.
func UninstallEvents() error { return unsupported() }

// Manager is the SCM, which is not here.
type Manager struct{}

// Connect fails.
func Connect(bool) (*Manager, error) { return nil, unsupported() }

// Close does nothing.
func (*Manager) Close() error { return nil }

// Create fails.
func (*Manager) Create(Spec) error { return unsupported() }

// Update fails.
func (*Manager) Update(Spec) error { return unsupported() }

// Control fails.
func (*Manager) Control(Command) error { return unsupported() }

// Status fails.
func (*Manager) Status() (Status, error) { return Status{}, unsupported() }
