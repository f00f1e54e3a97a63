//go:build !linux

package ipvs

import (
	"errors"
	"fmt"
	"runtime"
)

// Usable says that there is no IPVS here.
func Usable(Options) error { return fmt.Errorf("IPVS on %s: %w", runtime.GOOS, errors.ErrUnsupported) }

// Prepare says that there is no IPVS here.
func Prepare(o Options) ([]string, error) { return nil, Usable(o) }

func openKernel(string) (kernel, error) { return kernel{}, Usable(Options{}) }

// Present tells that nothing is here.
func Present(string) bool { return false }
