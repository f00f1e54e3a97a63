package manifests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/objecttest"
	"github.com/portald/portald/proxy/kube/translate"
)

const windows = "windows" // as in runtime.GOOS

// svc is a Service with one frontend.
func svc(name, ip string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n  namespace: shop\nspec:\n  "+
		"clusterIP: %s\n  ports:\n  - port: 80\n", name, ip)
}

// running are manifests that are followed until the test ends.
type running struct {
	t     *testing.T
	store *service.Store
	log   *logtest.Hook
	m     *Source
}

func run(t *testing.T, stdin string, paths ...string) *running {
	t.Helper()
	log, hook := logtest.NewNullLogger()
	r := &running{t: t, store: service.NewStore(), log: hook}
	r.m = New(paths, translate.NewCache(r.store, translate.Options{}, log), log)
	r.m.Stdin, r.m.rescan = strings.NewReader(stdin), time.Hour
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error("run:", err)
		}
	})
	select {
	case <-r.m.Synced():
	case <-time.After(time.Minute):
		t.Fatal("never synced")
	}
	return r
}

// state is "name=address …" of what is served.
func (r *running) state() string {
	var out []string
	ports, _ := r.store.All()
	for _, p := range ports {
		out = append(out, p.Name.Name+"="+p.Exposures[0].Frontend.Addr.Addr().String())
	}
	return strings.Join(out, " ")
}

// wait fails unless the state is reached, by events: no rescan finds it.
func (r *running) wait(want string) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		got := r.state()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("served: %q, want %q; said: %v", got, want, objecttest.Messages(r.log, logrus.WarnLevel))
		}
	}
}

// stays fails when the state changes within the time a change takes to be seen.
func (r *running) stays(want string) {
	r.t.Helper()
	for end := time.Now().Add(6 * quietPeriod); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got := r.state(); got != want {
			r.t.Fatalf("served: %q, want %q", got, want)
		}
	}
}

func (r *running) said(part string) {
	r.t.Helper()
	all := objecttest.Messages(r.log, logrus.WarnLevel)
	n := 0
	for _, text := range all {
		if strings.Contains(text, part) {
			n++
		}
	}
	if n != 1 {
		r.t.Errorf("said %d times: %s; all: %v", n, part, all)
	}
}

func write(t *testing.T, path string, text ...string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(strings.Join(text, "")), 0o644))
}

func TestFolderIsFollowed(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yml")
	write(t, a, svc("a", "10.96.0.1"))
	write(t, filepath.Join(dir, ".hidden.yaml"), svc("x", "10.96.0.9"))
	write(t, filepath.Join(dir, "a.yaml~"), svc("x", "10.96.0.9"))
	check(t, os.Mkdir(filepath.Join(dir, "deep.yaml"), 0o755))
	r := run(t, "", dir)
	r.wait("a=10.96.0.1")
	write(t, a, svc("a", "10.96.0.2"))
	r.wait("a=10.96.0.2")
	write(t, b, svc("b", "10.96.0.3"), svc("c", "10.96.0.4"))
	r.wait("a=10.96.0.2 b=10.96.0.3 c=10.96.0.4")
	check(t, os.Remove(a))
	r.wait("b=10.96.0.3 c=10.96.0.4")
	next := filepath.Join(dir, ".b.new")
	write(t, next, svc("b", "10.96.0.5"))
	check(t, os.Rename(next, b))
	r.wait("b=10.96.0.5")
	check(t, os.Rename(b, filepath.Join(dir, "z.json")))
	r.stays("b=10.96.0.5")
	if said := objecttest.Messages(r.log, logrus.WarnLevel); len(said) > 0 {
		t.Error("said:", said)
	}
}

// Another file in the place of one, with the same size and time, is another.
func TestReplacedFileIsStale(t *testing.T) {
	dir := t.TempDir()
	path, next := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "next")
	write(t, path, svc("a", "10.96.0.1"))
	write(t, next, svc("a", "10.96.0.2"))
	info, err := os.Stat(path)
	check(t, err)
	check(t, os.Chtimes(next, info.ModTime(), info.ModTime()))
	m, _ := loaded(t, path)
	check(t, os.Rename(next, path))
	if files, err := m.stale(); err != nil || len(files) != 1 {
		t.Error("to be read:", files, err)
	}
}

func TestMountedConfigMapIsFollowed(t *testing.T) {
	if runtime.GOOS == windows {
		t.Skip("Wine does not rename links")
	}
	for _, what := range []string{"folder", "file"} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			version := func(n int, ip string) string {
				name := fmt.Sprintf("..2026_%d", n)
				check(t, os.Mkdir(filepath.Join(dir, name), 0o755))
				write(t, filepath.Join(dir, name, "all.yaml"), svc("a", ip))
				check(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
				check(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
				return filepath.Join(dir, name)
			}
			old := version(1, "10.96.0.1")
			check(t, os.Symlink("..data/all.yaml", filepath.Join(dir, "all.yaml")))
			path := dir
			if what == "file" {
				path = filepath.Join(dir, "all.yaml")
			}
			r := run(t, "", path)
			r.wait("a=10.96.0.1")
			version(2, "10.96.0.2")
			check(t, os.RemoveAll(old))
			r.wait("a=10.96.0.2")
		})
	}
}

func TestBrokenFileKeepsWhatWasGood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all.yaml")
	write(t, path, svc("a", "10.96.0.1"), svc("b", "10.96.0.2"), svc("c", "10.96.0.3"))
	r := run(t, "", path)
	r.wait("a=10.96.0.1 b=10.96.0.2 c=10.96.0.3")

	// A document that can be named: it alone stays, c is gone.
	write(t, path, svc("a", "10.96.1.1"), strings.Replace(svc("b", "10.96.0.9"), "port: 80", "port: http", 1))
	r.wait("a=10.96.1.1 b=10.96.0.2")
	r.said("document 2 (line 12): service shop/b: spec.ports.port: is a string; write a number")

	// One of a misspelt kind: what has its name stays, c does not come back.
	write(t, path, svc("a", "10.96.1.1"), strings.Replace(svc("b", "10.96.0.9"), "Service", "Servce", 1))
	r.stays("a=10.96.1.1 b=10.96.0.2")
	r.said(`document 2 (line 12): kind: no "Servce" is in apiVersion "v1" of Kubernetes`)

	// One that cannot be named: all stay.
	write(t, path, svc("a", "10.96.2.1"), "---\nkind: Serv\n  ice\n")
	r.wait("a=10.96.2.1 b=10.96.0.2")
	r.stays("a=10.96.2.1 b=10.96.0.2")
	write(t, path, svc("a", "10.96.3.1"), "---\nkind: {\n")
	r.wait("a=10.96.3.1 b=10.96.0.2")

	// Emptied, as by a shell that is about to write it.
	write(t, path)
	r.stays("a=10.96.3.1 b=10.96.0.2")

	write(t, path, svc("b", "10.96.4.2"))
	r.wait("b=10.96.4.2")

	// Emptied, and left so.
	write(t, path)
	long := time.Now().Add(-2 * emptyGrace)
	check(t, os.Chtimes(path, long, long))
	r.wait("")
}

// A file that cannot be read stops nothing, and is reported in one line.
func TestOtherKindsAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump.yaml")
	write(t, path, kinds("v1 Pod", "v1 Pod", "example.com/v1 Service"), svc("b", "10.96.0.2"))
	r := run(t, "", path)
	r.wait("b=10.96.0.2")
	said := objecttest.Messages(r.log, logrus.InfoLevel)
	if want := path + ": kinds that are not read: Pod (2), Service.example.com (1)"; len(said) == 0 || said[0] != want {
		t.Errorf("said %q, want %q", said, want)
	}
	if said := objecttest.Messages(r.log, logrus.WarnLevel); len(said) > 0 {
		t.Error("warned:", said)
	}
}

// A large list with an alias to another item is read as a whole, and again when it changes.
func TestLargeListWithAlias(t *testing.T) {
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: ServiceList\nitems:\n- metadata: {name: a, annotations: {x: &x v}}\n")
	filler := strings.Repeat("x", 1<<20)
	text.WriteString("- metadata: {name: b, annotations: {x: *x, y: " + filler +
		"}}\n  spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n")
	path := filepath.Join(t.TempDir(), "list.yaml")
	write(t, path, text.String())
	r := run(t, "", path)
	r.wait("b=10.96.0.1")
	write(t, path, strings.Replace(text.String(), "10.96.0.1", "10.96.0.2", 1))
	r.wait("b=10.96.0.2")
	if said := objecttest.Messages(r.log, logrus.WarnLevel); len(said) > 1 { // a has no address
		t.Error("warned:", said)
	}
}

func TestFirstPathWins(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "z.yaml"), filepath.Join(dir, "a.yaml")
	write(t, first, svc("a", "10.96.0.1"), svc("a", "10.96.0.9"))
	write(t, second, svc("a", "10.96.0.2"), svc("b", "10.96.0.3"))
	r := run(t, "", first, second)
	r.wait("a=10.96.0.1 b=10.96.0.3")
	r.said("service shop/a is in this file twice; the first is served")
	r.said(fmt.Sprintf("service shop/a is in several files: that of %s is served, ignored are those of %s", first, second))
	write(t, first, svc("c", "10.96.0.4"))
	r.wait("a=10.96.0.2 b=10.96.0.3 c=10.96.0.4")
}

func TestPathThatVanishesIsServedAgainWhenBack(t *testing.T) {
	if runtime.GOOS == windows {
		t.Skip("Wine and old Windows keep the name of a removed folder as long as it is watched")
	}
	top := t.TempDir()
	dir := filepath.Join(top, "m")
	check(t, os.Mkdir(dir, 0o755))
	write(t, filepath.Join(dir, "a.yaml"), svc("a", "10.96.0.1"))
	r := run(t, "", dir)
	r.wait("a=10.96.0.1")
	check(t, os.RemoveAll(dir))
	r.wait("")
	check(t, os.Mkdir(dir, 0o755))
	write(t, filepath.Join(dir, "a.yaml"), svc("a", "10.96.0.2"))
	r.wait("a=10.96.0.2")
	write(t, filepath.Join(dir, "a.yaml"), svc("a", "10.96.0.3"))
	r.wait("a=10.96.0.3")
	r.said(dir + " was removed, and so are its objects")
}

func TestStandardInputIsReadOnce(t *testing.T) {
	run(t, svc("a", "10.96.0.1"), "-").stays("a=10.96.0.1")
}

func TestStandardInputAndPipeAreReadOnce(t *testing.T) {
	if runtime.GOOS == windows {
		t.Skip("pipes have no paths there as with /dev/fd")
	}
	pipe, w, err := os.Pipe()
	check(t, err)
	defer pipe.Close()
	_, err = w.WriteString(svc("b", "10.96.0.2"))
	check(t, err)
	check(t, w.Close())
	r := run(t, svc("a", "10.96.0.1"), "-", fmt.Sprintf("/dev/fd/%d", pipe.Fd()))
	r.stays("a=10.96.0.1 b=10.96.0.2")
}

func TestMissingPathIsAnError(t *testing.T) {
	m := New([]string{filepath.Join(t.TempDir(), "none")}, translate.NewCache(service.NewStore(), translate.Options{},
		quiet()), quiet())
	if err := m.Run(t.Context()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none: ") {
		t.Error(err)
	}
}

// An end while standard input waits for somebody does not hang.
func TestEndWhileStandardInputWaits(t *testing.T) {
	r, w, err := os.Pipe()
	check(t, err)
	m := New([]string{"-"}, translate.NewCache(service.NewStore(), translate.Options{}, quiet()), quiet())
	m.Stdin = r
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	check(t, m.Run(ctx))
	select {
	case <-m.Synced():
		t.Error("synced")
	default:
	}
	check(t, w.Close())
}

// Only what changed in a file is read and translated again.
func TestUnchangedObjectsAreLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all.yaml")
	write(t, path, svc("a", "10.96.0.1"), svc("b", "10.96.0.2"), svc("c", "10.96.0.3"))
	m, _ := loaded(t, path)
	before, _ := m.cache.Changes()
	write(t, path, "# moved down\n", svc("a", "10.96.0.1"), svc("b", "10.96.0.9"), svc("c", "10.96.0.3"))
	files, err := m.stale()
	check(t, err)
	m.update(readings(files))
	if after, _ := m.cache.Changes(); after != before+1 {
		t.Errorf("%d changes", after-before)
	}
	if files, err = m.stale(); err != nil || len(files) > 0 {
		t.Error("read again:", files, err)
	}
}

// A loop of links cannot be read, not even by root.
func TestUnreadableFileKeepsItsObjects(t *testing.T) {
	if runtime.GOOS == windows {
		t.Skip("Wine does not rename links")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, svc("a", "10.96.0.1"))
	r := run(t, "", dir)
	loop := filepath.Join(dir, "loop")
	check(t, os.Symlink("loop", loop))
	check(t, os.Rename(loop, path))
	check(t, os.Symlink("a.yaml", filepath.Join(dir, "loop")))
	r.stays("a=10.96.0.1")
	check(t, os.Remove(path))
	r.wait("")
}
