package winservice

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// The files of panics, in the folder of the daemon: of this run, and of the last one that panicked.
const (
	crashFile = "crash.log"
	lastCrash = "crash-last.log"
)

// crashLines is how much of a panic is told.
const crashLines = 8

// WatchCrashes has the Go runtime write a panic of this process to a file in that folder, since a service has no
// standard error. It returns the beginning of the panic that ended the run before, empty if none did.
func WatchCrashes(dir string) (last string, err error) {
	path := filepath.Join(dir, crashFile)
	if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
		kept := filepath.Join(dir, lastCrash)
		if err := os.Rename(path, kept); err != nil {
			return "", fmt.Errorf("keep the panic of the last run: %w", err)
		}
		lines := strings.SplitN(string(text), "\n", crashLines+1)
		last = strings.Join(lines[:min(len(lines), crashLines)], "\n") + "\n… in " + kept
	}
	file, err := os.Create(path)
	if err != nil {
		return last, fmt.Errorf("create the file for panics: %w", err)
	}
	defer file.Close() // the runtime has its own handle
	if err := debug.SetCrashOutput(file, debug.CrashOptions{}); err != nil {
		return last, fmt.Errorf("have panics written to a file: %w", err)
	}
	return last, nil
}
