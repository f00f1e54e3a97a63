package handover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/bed"
)

// A disk without room, for bytes or for files, on which sockets and the connection log are, holds up no take-over:
// connections go on, and once there is room there is a hand-over socket again, and records are written.
func TestDiskIsFullDuringTakeOver(t *testing.T) {
	for what, fill := range map[string]func(folder string, n int) error{
		"bytes": func(folder string, _ int) error {
			f, err := os.Create(filepath.Join(folder, "filler"))
			for err == nil {
				_, err = f.Write(make([]byte, 4<<10))
			}
			return errors.Join(err, f.Close())
		},
		"files": func(folder string, n int) error {
			return os.Mkdir(filepath.Join(folder, fmt.Sprint("filler", n)), 0o700)
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := bed.New(t)
			b.ServePods(0)
			folder := b.ShortDir()
			b.Must(unix.Mount("none", folder, "tmpfs", 0, "size=256k,nr_inodes=64"))
			t.Cleanup(func() { b.Must(unix.Unmount(folder, unix.MNT_DETACH)) })
			log := filepath.Join(folder, "records")
			first := b.Start(b.Cart(0), "--admin-socket="+filepath.Join(folder, "admin.sock"), "--connection-log="+log)
			c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
			for n := 0; ; n++ {
				if err := fill(folder, n); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				} else if err != nil {
					break
				}
			}
			second := first.Succeed()
			second.ExpectErrors = true
			if code := first.Exit(); code != 0 {
				t.Errorf("the first ended with code %d", code)
			}
			second.WaitReady()
			b.Must(bed.Echoes(c, r))
			b.ServedBy(bed.IP4, bed.PodName(0))
			fillers, err := filepath.Glob(filepath.Join(folder, "filler*"))
			b.Must(err)
			for _, f := range fillers {
				b.Must(os.Remove(f))
			}
			if what == "files" {
				b.Eventually("the next to be able to find it", func() bool {
					return strings.Contains(second.Log.String(), "The next portald can find this one now")
				})
			}
			third := second.Succeed()
			third.File = log
			if code := second.Exit(); code != 0 {
				t.Errorf("the second ended with code %d", code)
			}
			third.WaitReady()
			b.Must(bed.Echoes(c, r))
			_ = c.CloseWrite()
			if rec := third.RecordOf(a); rec.Outcome != "ok" {
				t.Errorf("recorded as %s", rec)
			}
			if !strings.Contains(third.Log.String(), "Took over from") {
				t.Error(third.Log)
			}
		})
	}
}
