package wine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Installation is Open's entry in the user's cache: a prefix to copy, in which nothing ever runs, and a copy that
// winerun shares between test binaries.
type Installation struct{ dir string }

// Prefix is an installation of Windows as Wine has it: registry, drive C, and one wineserver, which stands for the
// kernel while programs run. The wineserver owns all sockets, so a prefix belongs to the network namespace that its
// first program was started in.
type Prefix struct {
	dir      string
	replaced []string // programs of system32
}

// Open returns the installation in the user's cache, which is made first where it is not. Programs in it have to be
// started by a process that has called BindExactly.
func Open(ctx context.Context) (Installation, error) {
	if err := Check(); err != nil {
		return Installation{}, err
	}
	dir, err := cached()
	if err != nil {
		return Installation{}, err
	}
	return Installation{dir}, makeOnce(ctx, dir)
}

// Shared is the prefix of winerun.
func (i Installation) Shared() Prefix { return Prefix{dir: filepath.Join(i.dir, "shared")} }

// pristine is the prefix that others are copies of.
func (i Installation) pristine() Prefix { return Prefix{dir: filepath.Join(i.dir, "pristine")} }

// Copy makes a prefix at dir, which must not exist: one for each network namespace.
func (i Installation) Copy(ctx context.Context, dir string) (Prefix, error) {
	from := i.pristine().dir
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, dir).CombinedOutput(); err != nil {
		return Prefix{}, fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return Prefix{dir: dir}, nil
}

// DriveC is the folder that programs know as C:\.
func (p Prefix) DriveC() string { return filepath.Join(p.dir, "drive_c") }

// System32 is where the prefix has C:\Windows\System32.
func (p Prefix) System32() string { return filepath.Join(p.DriveC(), "windows", "system32") }

// Replace puts a program built by Go in the place of one of system32, such as netsh.exe. What is started by the
// returned prefix finds it there.
func (p Prefix) Replace(name, program string) (Prefix, error) {
	patched, err := Program(program)
	if err != nil {
		return p, err
	}
	content, err := os.ReadFile(patched)
	if err != nil {
		return p, err
	}
	write := func(path string) error { return os.WriteFile(path, content, 0o777) }
	err = replaceFile(filepath.Join(p.System32(), name), write)
	p.replaced = append(p.replaced[:len(p.replaced):len(p.replaced)], name)
	return p, err
}

// Close ends all that runs in the prefix.
func (p Prefix) Close(ctx context.Context) error {
	// It fails where no wineserver runs.
	_ = p.server(ctx, "--kill").Run()
	return p.wait(ctx)
}

// wait returns when nothing runs in the prefix.
func (p Prefix) wait(ctx context.Context) error {
	if out, err := p.server(ctx, "--wait").CombinedOutput(); err != nil {
		return fmt.Errorf("wait for the end of the wineserver: %w: %s", err, out)
	}
	return nil
}

func (p Prefix) server(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, server, args...)
	cmd.Env = p.Environ()
	return cmd
}

// Program returns the path of a copy of a Go program, adapted to Wine (Patch), which is made beside it unless it is
// there and newer.
func Program(exe string) (string, error) {
	patched := strings.TrimSuffix(exe, ".exe") + ".wine.exe"
	if newer(patched, exe) {
		return patched, nil
	}
	content, err := os.ReadFile(exe)
	if err != nil {
		return "", err
	}
	if _, err := Patch(content); err != nil {
		return "", fmt.Errorf("adapt %s to Wine: %w", exe, err)
	}
	return patched, writeProgram(patched, content)
}

// newer says whether a exists and has changed after b.
func newer(a, b string) bool {
	ia, err := os.Stat(a)
	if err != nil {
		return false
	}
	ib, err := os.Stat(b)
	return err == nil && ia.ModTime().After(ib.ModTime())
}

// writeProgram never leaves half a program at its path.
func writeProgram(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "patched")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Processes lists the processes of the prefix: its programs, the services, and the wineserver, which works for all.
func (p Prefix) Processes() (pids []int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue // it has ended
		}
		if !slices.Contains(strings.Split(string(env), "\x00"), "WINEPREFIX="+p.dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, err
}
