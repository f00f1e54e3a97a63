package ipvs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/portald/portald/platform"
)

// Prepare writes the kernel's settings that a Writer with these Options needs, for one whose process may not write
// them, and returns which it changed. They are there once the kernel has IPVS, which is loaded where that may be.
func Prepare(o Options) (changed []string, err error) {
	if err := family(); err != nil {
		return nil, err
	}
	w := &Writer{Options: o, kernel: kernel{version: platform.Kernel}}
	err = eachOf(w.sysctls(), func(name, value string) error {
		was, err := setSysctl(name, value)
		if err == nil && was != value {
			changed = append(changed, fmt.Sprintf("%s: %s, was %s", dotted(name), value, was))
		}
		return err
	})
	return changed, advised(err)
}

// dotted is a sysctl's name as the command sysctl has it.
func dotted(name string) string { return strings.ReplaceAll(name, "/", ".") }

func sysctl(name, value string) error {
	_, err := setSysctl(name, value)
	return err
}

// setSysctl returns the value that was there. One that is as it should be is not written: it may not be writable.
func setSysctl(name, value string) (was string, err error) {
	path := "/proc/sys/" + name
	text, err := os.ReadFile(path)
	if err == nil {
		if was = strings.TrimSpace(string(text)); was == value {
			return was, nil
		}
		err = os.WriteFile(path, []byte(value), 0)
	}
	if err == nil {
		return was, nil
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // it names the file again
	}
	if errors.Is(err, fs.ErrNotExist) {
		return was, fmt.Errorf("set %s to %s: %w: the module ip_vs is not loaded, or the kernel is too old", dotted(name),
			value, err)
	}
	return was, fmt.Errorf("set %s to %s, which is %s: %w", dotted(name), value, was, err)
}
