package handover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/bed"
)

// disk is a small one.
type disk struct {
	*bed.Bed
	path   string
	filler []string
}

func newDisk(b *bed.Bed) *disk {
	b.Helper()
	d := &disk{Bed: b, path: b.ShortDir()}
	b.Must(unix.Mount("none", d.path, "tmpfs", 0, "size=256k,nr_inodes=40"))
	b.Cleanup(func() { _ = unix.Unmount(d.path, unix.MNT_DETACH) })
	return d
}

func (d *disk) at(name string) string { return filepath.Join(d.path, name) }

// fill leaves room for no byte, and for no file, folder or socket.
func (d *disk) fill() {
	d.Helper()
	for n := 0; ; n++ {
		name := d.at(fmt.Sprint("filler", n))
		err := os.WriteFile(name, make([]byte, 16<<10), 0o600)
		if _, there := os.Lstat(name); there == nil {
			d.filler = append(d.filler, name)
		} else if errors.Is(err, unix.ENOSPC) {
			return
		} else {
			d.Must(err)
		}
	}
}

func (d *disk) free() {
	d.Helper()
	for _, name := range d.filler {
		d.Must(os.Remove(name))
	}
	d.filler = nil
}

// A full disk under sockets, lock and records keeps nobody from a take-over, nor from going on after a crash. It is
// said that nobody can take over then, and once there is room somebody can. Records are there but for those of portalds
// that ended before there was room.
func TestFullDisk(t *testing.T) {
	b := bed.New(t)
	serveEcho(b, 0)
	at := newDisk(b)
	k := b.Exec(b.Line("keep", "--socket", at.at("keep.sock"))...)
	b.Eventually("the keeper", func() bool { return strings.Contains(k.Log.String(), "keeps at") })
	first := b.Start(b.Cart(0), "--hand-over-socket="+at.at("h.sock"), "--keep-socket="+at.at("keep.sock"),
		"--connection-log="+at.at("records"))
	c := &crashed{Bed: b, d: first.Succeed("--admin-socket=" + at.at("admin.sock"))}
	if code := first.Exit(); code != 0 {
		t.Fatalf("portald ended with code %d", code)
	}
	c.open(b, bed.HostPort(bed.IP4, 80), "asking", 5, c.asks)
	c.open(b, bed.HostPort(bed.IP4, 80), "bulk", 2, c.bulk)
	c.kept()
	served := func() {
		t.Helper()
		c.d.WaitReady()
		one := streams{}
		one.open(b, bed.HostPort(bed.IP4, 80), "new", 1, one.asksOnce)
		for _, s := range one.stop() {
			t.Errorf("a new connection: %v\n%s", s.err, c.d.Log)
		}
	}
	at.fill()
	served() // its record is lost
	before := c.d
	c.d = before.Succeed()
	if code := before.Exit(); code != 0 {
		t.Errorf("the predecessor ended with code %d", code)
	}
	served()
	c.says("the next portald cannot find this one")
	c.kept()

	c.d = kill(c.d)
	served()
	c.says(fmt.Sprintf("%d connections %s, 0 had ended, 0 are reset", len(c.all), carriedOnLine))
	c.says("the next portald cannot find this one")

	at.free()
	c.says("Hand-over is on again: the next portald can find this one")
	before = c.d
	c.d = before.Succeed()
	if code := before.Exit(); code != 0 {
		t.Errorf("the predecessor ended with code %d", code)
	}
	served()
	c.says("Took over from")
	c.end()
	want := len(c.all) + 2
	b.Eventually("the records", func() bool { return len(bed.ReadRecords(t, at.at("records"))) >= want })
	if n := len(bed.ReadRecords(t, at.at("records"))); n != want {
		t.Errorf("%d records, want %d", n, want)
	}
}

// A portald that cannot listen for the next one since the disk is full, and cannot be told of it for that, goes on: the
// two do not fight for the rules. Once there is room the next one takes over.
func TestFullDiskKeepsTheNextOut(t *testing.T) {
	b := bed.New(t)
	serveEcho(b, 0)
	at := newDisk(b)
	first := b.Start(b.Cart(0), "--hand-over-socket="+at.at("h.sock"))
	c := &crashed{Bed: b}
	c.open(b, bed.HostPort(bed.IP4, 80), "asking", 5, c.asks)
	at.fill()
	c.d = first.Succeed()
	first.Exit()
	c.d.WaitReady()
	second := c.d
	c.d = second.Succeed()
	const silence = 15 * time.Second
	if !bed.Within(2*silence, func() bool { return strings.Contains(c.d.Log.String(), "cannot be notified") }) {
		t.Fatalf("the next one does not say that it waits:\n%s", c.d.Log)
	}
	at.free()
	c.says("Took over from")
	if code := second.Exit(); code != 0 {
		t.Errorf("the predecessor ended with code %d", code)
	}
	c.d.WaitReady()
	if log := second.Log.String() + c.d.Log.String(); strings.Contains(log, "changed by others") {
		t.Errorf("the two fought for the rules:\n%s", log)
	}
	c.end()
}

// says waits until the daemon has said so.
func (c *crashed) says(what string) {
	c.Helper()
	c.Eventually("the line with "+what, func() bool { return strings.Contains(c.d.Log.String(), what) })
}
