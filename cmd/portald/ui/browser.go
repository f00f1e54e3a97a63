package ui

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// openBrowser opens an address in the user's browser, if there is one, and returns what removes the traces.
//
// The browser is given a file that only this user can read, which leads to the address: the command lines of processes
// are for everybody to read, and the token must not be in one.
func openBrowser(address string) (clean func()) {
	line := browserLine(runtime.GOOS, os.Getenv, os.Geteuid())
	if line == nil {
		return func() {}
	}
	path, err := writeLeader(address)
	if err != nil {
		return func() {}
	}
	cmd := exec.Command(line[0], append(line[1:], path)...)
	if cmd.Start() == nil { // what fails here is not needed: the address is printed
		go func() { _ = cmd.Wait() }()
	}
	return func() { _ = os.Remove(path) }
}

// browserLine is the command line to which a file is added to open it; nil: there is no browser. Root has none:
// browsers refuse to run as root.
func browserLine(system string, env func(string) string, user int) []string {
	switch {
	case system == "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	case system == "darwin":
		return []string{"open"}
	case user != 0 && (env("DISPLAY") != "" || env("WAYLAND_DISPLAY") != ""):
		return []string{"xdg-open"}
	}
	return nil
}

// writeLeader writes a page that leads to an address.
func writeLeader(address string) (path string, err error) {
	f, err := os.CreateTemp("", "portald-ui-*.html") // which only its owner can read
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(f, `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">`+
		`<meta http-equiv="refresh" content="0;url=%s"><title>portald</title>`, address)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return f.Name(), err
}
