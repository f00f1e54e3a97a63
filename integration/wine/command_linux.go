package wine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Command runs a program built by Go (Program adapts it) in the prefix. It is exec.Command of Line with Environ; who
// starts programs by other means, in a network namespace for example, uses those.
func (p Prefix) Command(ctx context.Context, exe string, args ...string) (*exec.Cmd, error) {
	line, err := p.Line(exe, args...)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = p.Environ()
	return cmd, nil
}

// Line is the command line of a program built by Go in the prefix.
func (p Prefix) Line(exe string, args ...string) ([]string, error) {
	program, err := Program(exe)
	if err != nil {
		return nil, err
	}
	return append([]string{loader, program}, args...), nil
}

// Environ is this process's environment, changed as programs in the prefix need it. It goes without a display, of which
// Wine would want to know more than a test does.
func (p Prefix) Environ() []string {
	ours := []string{"DISPLAY", "WAYLAND_DISPLAY", "WINEPREFIX", "WINEDLLOVERRIDES", "WINEDEBUG", "GOOS", "GOARCH"}
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(ours, name)
	})
	// mscoree and mshtml: .NET and a browser, which Wine would like to download.
	overrides := "mscoree,mshtml=;winemenubuilder.exe=d"
	for _, name := range p.replaced {
		overrides += ";" + name + "=n"
	}
	return append(env, "WINEPREFIX="+p.dir, "WINEDEBUG=-all", "WINEDLLOVERRIDES="+overrides)
}

// Warm starts what a prefix runs besides programs, if it does not run: services, which would inherit standard output of
// the first program, keep it open, and have whoever reads it wait. Several processes may ask at a time. A start that
// meets the end of the wineserver before it, which stays for some seconds after its last program, fails: the next one
// finds it gone.
func (p Prefix) Warm(ctx context.Context) error {
	unlock, err := lock(p.dir + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	for range warmTries - 1 {
		if p.run(ctx, "cmd", "/c", "exit", "0") == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return p.run(ctx, "cmd", "/c", "exit", "0")
}

// warmTries is how often Warm tries. Each takes ten seconds, if Wine waits for a service that does not start.
const warmTries = 4

// run runs one of Wine's own programs, without input and output.
func (p Prefix) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, loader, args...)
	cmd.Env = p.Environ()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run Wine's %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// Exec replaces this process by a program built by Go, in the prefix. It returns only if it fails.
func (p Prefix) Exec(exe string, args ...string) error {
	line, err := p.Line(exe, args...)
	if err != nil {
		return err
	}
	return unix.Exec(line[0], line, p.Environ())
}
