package wine

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Where Debian's wine64 has its parts. They are not on PATH.
const (
	loader = "/usr/lib/wine/wine64"
	server = "/usr/lib/wine/wineserver64"
	dlls   = "/usr/lib/x86_64-linux-gnu/wine/x86_64-windows"
)

// Check says what this machine lacks to run Windows programs.
func Check() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("wine64 runs programs of amd64, and this machine is %s", runtime.GOARCH)
	}
	for _, part := range []string{loader, server, dlls} {
		if _, err := os.Stat(part); err != nil {
			return fmt.Errorf("wine64 is missing (Debian: apt-get install --no-install-recommends wine64): %w", err)
		}
	}
	return nil
}

// Programs that make the installation.
var (
	//go:embed make_linux.go
	makeSource string
	//go:embed forwarder.go
	forwarderSource string
)

// cached returns the directory of the installation in the user's cache. It differs by version of Wine, and by the code
// that makes it.
func cached() (string, error) {
	version, err := exec.Command(loader, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask for the version of Wine: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256([]byte(string(version) + makeSource + forwarderSource))
	return filepath.Join(cache, "portald", fmt.Sprintf("wine-%x", key[:8])), nil
}

// makeOnce makes the installation unless it is there. Several processes may ask at a time.
func makeOnce(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(filepath.Dir(dir), "wine.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		now := time.Now()
		return os.Chtimes(dir, now, now)
	}
	fresh := Installation{dir + ".new"}
	if err := os.RemoveAll(fresh.dir); err != nil {
		return err
	}
	if err := fresh.make(ctx); err != nil {
		return fmt.Errorf("make a Wine prefix: %w", err)
	}
	return errors.Join(os.Rename(fresh.dir, dir), removeUnused(filepath.Dir(dir)))
}

// lock waits for a file's lock, which the process's end releases too.
func lock(path string) (unlock func() error, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file.Close, nil
}

// make fills the installation: some twenty seconds, and 700 MB while it lasts.
func (i Installation) make(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := os.MkdirAll(i.pristine().dir, 0o777); err != nil {
		return err
	}
	if err := i.pristine().fill(ctx); err != nil {
		return err
	}
	_, err := i.Copy(ctx, i.Shared().dir)
	return err
}

func (p Prefix) fill(ctx context.Context) error {
	for _, args := range [][]string{
		{"wineboot", "--init"},
		{"reg", "add", `HKCU\Software\Wine`, "/v", "Version", "/d", "win10", "/f"},
	} {
		if err := p.run(ctx, args...); err != nil {
			return err
		}
	}
	if err := p.wait(ctx); err != nil {
		return err
	}
	system := p.System32()
	if err := linkDLLs(system); err != nil {
		return err
	}
	for _, unused := range []string{"winsxs", "syswow64"} { // side-by-side versions, and those of 32 bits
		if err := os.RemoveAll(filepath.Join(filepath.Dir(system), unused)); err != nil {
			return err
		}
	}
	// A link of Debian's to the wineserver's socket, which another wineserver would follow.
	if err := os.RemoveAll(filepath.Join(p.dir, "wineserver")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(system, processPrng.dll), processPrng.image(), 0o666)
}

// linkDLLs replaces the copies that wineboot made of the package's files by links: 41 MB are left of the prefix.
func linkDLLs(system string) error {
	files, err := os.ReadDir(system)
	if err != nil {
		return err
	}
	for _, f := range files {
		original := filepath.Join(dlls, f.Name())
		if _, err := os.Stat(original); err != nil || !f.Type().IsRegular() {
			continue
		}
		link := func(path string) error { return os.Symlink(original, path) }
		if err := replaceFile(filepath.Join(system, f.Name()), link); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile removes what has this name, a link itself and not its target, and makes it again.
func replaceFile(path string, create func(path string) error) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return create(path)
}

// removeUnused removes the installations that nobody has used for a while.
func removeUnused(cache string) error {
	all, err := filepath.Glob(filepath.Join(cache, "wine-*"))
	if err != nil {
		return err
	}
	const keep = 14 * 24 * time.Hour
	for _, p := range all {
		info, err := os.Stat(p)
		if err != nil || time.Since(info.ModTime()) < keep {
			continue
		}
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	return nil
}
