package ipvs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/portald/portald/platform"
)

// Prepare writes the kernel's settings that a Writer with these Options needs, as New's does, for a process that may not
// write them, and returns which it changed. The settings are there once the kernel has IPVS, which it loads where it may.
func Prepare(o Options) (changed []string, err error) {
	if err := family(); err != nil {
		return nil, err
	}
	var errs []error
	w := &Writer{Options: o, kernel: kernel{version: platform.Kernel}}
	for _, s := range w.sysctls() {
		was, err := setSysctl(s[0], s[1])
		if err == nil && was != s[1] {
			changed = append(changed, fmt.Sprintf("%s: %s, was %s", s[0], s[1], was))
		}
		errs = append(errs, err)
	}
	return changed, errors.Join(errs...)
}

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
	dotted := strings.ReplaceAll(name, "/", ".")
	if errors.Is(err, fs.ErrNotExist) {
		return was, fmt.Errorf("set %s to %s: %w: the kernel has no such setting; load its module (modprobe ip_vs)",
			dotted, value, err)
	}
	return was, fmt.Errorf("set %s to %s, which is %s: %w: write it on the node (sysctl -w %[1]s=%[2]s), or run portald "+
		"--init-only with the rights to do so, as an init container", dotted, value, was, err)
}
