package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The fields of a record, those and no others.
var fields = []string{
	"affinity", "attempts", "bytes_from_client", "bytes_from_endpoint", "client", "closed_by", "connect_ms", "duration_ms", "endpoint",
	"error", "first_byte_ms", "how", "id", "node", "original_dst", "outcome", "pod", "portal", "protocol", "proxy", "service", "time",
}

func TestRecordsAsJSON(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	d := b.start(b.cart(0))
	before := time.Now().Add(-time.Second)
	for _, network := range []string{"tcp", "udp"} {
		if _, err := who(b.client, network, at(ip4, 80)); err != nil {
			t.Fatal(err)
		}
	}
	d.stop()
	data, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var all map[string]any
		if err := json.Unmarshal(line, &all); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, fields) {
			t.Errorf("fields %v, want %v", got, fields)
		}
	}
	rs := d.records()
	if len(rs) != 2 || rs[0].ID == rs[1].ID {
		t.Fatalf("records %v, want two of different ids", rs)
	}
	for _, r := range rs {
		if r.Time.Before(before) || time.Since(r.Time) < 0 || r.ConnectMS == nil || r.FirstByteMS == nil || *r.FirstByteMS < *r.ConnectMS ||
			r.DurationMS < *r.FirstByteMS || r.Endpoint != at(b.net.Pod(0).IPv4.String(), podPort) {
			t.Errorf("recorded as %s at %v", r, r.Time)
		}
	}
}

func TestRecordsAsText(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	d := b.start(b.cart(0), "--connection-log=-", "--connection-log-format=text")
	a, err := who(b.client, "tcp", at(ip4, 80))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`shop/cart:http tcp %s → 10\.96\.0\.10:80 \(ClusterIP\) → [0-9.]+:\d+ → %s shop/pod0 on here  ok  fin by client`,
		a.client, at(b.net.Pod(0).IPv4.String(), podPort))
	line := regexp.MustCompile(want)
	b.eventually("the line "+want, func() bool { return line.MatchString(d.log.String()) })
}

func TestRecordsFollowRotation(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	d := b.start(b.cart(0))
	old := d.file + ".1"
	b.tally(5, 1, b.client, "tcp", at(ip4, 80))
	b.eventually("5 records", func() bool { return len(d.records()) == 5 })
	b.must(os.Rename(d.file, old))
	b.eventually("a new file", func() bool { _, err := os.Stat(d.file); return err == nil })
	b.tally(5, 1, b.client, "tcp", at(ip4, 80))
	b.eventually("10 records in two files", func() bool { return len(d.records())+len(readRecords(t, old)) == 10 })
	if n := len(readRecords(t, old)); n != 5 {
		t.Errorf("the old file has %d records, want 5", n)
	}
}

// A disk that is full stops no traffic. What was lost is counted, and records go on when there is room.
func TestRecordsOnAFullDisk(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	disk := filepath.Join(b.dir, "disk")
	b.must(os.Mkdir(disk, 0o700))
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(disk, unix.MNT_DETACH) }()
	filler, file := filepath.Join(disk, "filler"), filepath.Join(disk, "records")
	d := b.start(b.cart(0), "--connection-log="+file)
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk takes a megabyte")
	}
	b.tally(50, 10, b.client, "tcp", at(ip4, 80))
	b.eventually("the errors to be counted", func() bool { return d.metric("portald_connection_log_errors_total") > 0 })
	if got := b.tally(50, 10, b.client, "tcp", at(ip4, 80)); got["pod0"] != 50 {
		t.Errorf("on a full disk %v were served, want 50", got)
	}
	if n := strings.Count(d.log.String(), "cannot write connection log"); n != 1 {
		t.Errorf("the trouble was said %d times, want once", n)
	}
	b.must(os.Remove(filler))
	b.eventually("all records", func() bool { return len(readRecords(t, file)) == 100 })
}

// Whoever should read standard error does not: traffic goes on, and changes are followed.
func TestNobodyReadsStandardError(t *testing.T) {
	b := newBed(t)
	b.servePods(0, 1)
	b.write(manifest, b.cart(0))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	cmd := b.node.Command(t.Context(), portald, "--manifests", filepath.Join(b.dir, manifest), "--connection-log=-")
	cmd.Stderr = w
	b.must(cmd.Start())
	w.Close()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it could not write what is left, and waits for that
		_ = cmd.Wait()
	}()
	b.eventually("portald to serve", b.served)
	if got := b.tally(500, 10, b.client, "tcp", at(ip4, 80)); got["pod0"] != 500 {
		t.Errorf("%v were served, want 500", got)
	}
	b.write(manifest, b.cart(1))
	b.becomes(ip4, "pod1")
}
