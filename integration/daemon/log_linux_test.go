package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/bed"
)

func TestRecordsAsJSON(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	before := time.Now().Add(-time.Second)
	for _, network := range []string{"tcp", "udp"} {
		if _, err := bed.Ask(b.Client, network, bed.HostPort(bed.IP4, 80)); err != nil {
			t.Fatal(err)
		}
	}
	d.Stop()
	data, err := os.ReadFile(d.File)
	if err != nil {
		t.Fatal(err)
	}
	validRecords(t, data)
	rs := d.Records()
	if len(rs) != 2 || rs[0].ID == rs[1].ID {
		t.Fatalf("records %v, want two of different ids", rs)
	}
	for _, r := range rs {
		if r.Time.Before(before) || time.Since(r.Time) < 0 || r.ConnectMS == nil || r.FirstByteMS == nil ||
			*r.FirstByteMS < *r.ConnectMS ||
			r.DurationMS < *r.FirstByteMS || r.Endpoint != bed.HostPort(b.Net.Pod(0).IPv4.String(), bed.PodPort) {
			t.Errorf("recorded as %s at %v", r, r.Time)
		}
	}
}

// validRecords compares the lines of a connection log with the schema in the manual.
func validRecords(t *testing.T, data []byte) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../../docs/record.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s%v", line, err)
		}
	}
}

// The annotations of a Service say whether it is logged, and the configuration file says which events are.
func TestWhichRecordsAreLogged(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	logged := func(events string) string {
		return b.WriteManifest("config.yaml", "apiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\n"+
			"connectionLog: {events: ["+events+"], period: 1s}\n")
	}
	d := b.Start(b.Cart(0), "--config="+logged("start, attempt, periodic, end"))
	conn, err := bed.Dial(bed.LongestTest, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
	b.Must(err)
	defer conn.Close()
	events := func(want string) {
		t.Helper()
		b.Eventually("the events "+want, func() bool {
			var got []string
			for _, r := range d.Records() {
				if got = append(got, r.Event); r.Event == "periodic" {
					break
				}
			}
			return strings.Join(got, " ") == want
		})
	}
	events("start attempt periodic")
	data, err := os.ReadFile(d.File)
	b.Must(err)
	validRecords(t, data)

	logged("end")
	ends := func() (n int) {
		for _, r := range d.Records() {
			if r.Event == "end" {
				n++
			}
		}
		return n
	}
	b.Tally(5, 1, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
	b.Eventually("5 ends", func() bool { return ends() == 5 })
	none := b.Cart(0)
	none.Annotations = []string{`portald.io/connection-log: "off"`}
	b.WriteManifest(bed.Manifest, none)
	b.Eventually("a connection that is not logged", func() bool {
		before := ends()
		b.Tally(1, 1, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		time.Sleep(300 * time.Millisecond) // records wait 50 ms for others
		return ends() == before
	})
	few := b.Cart(0)
	few.Annotations = []string{"portald.io/connection-log-sample: 1/1000000"}
	b.WriteManifest(bed.Manifest, few)
	b.Eventually("connections that sampling leaves out", func() bool {
		b.Tally(1, 1, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		return d.Metric("portald_connection_records_sampled_out_total") > 0
	})
}

func TestRecordsAsText(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0), "--connection-log=-", "--connection-log-format=text")
	a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`shop/cart:http tcp %s → 10\.96\.0\.10:80 \(ClusterIP\) → [0-9.]+:\d+ → %s shop/pod0 on here  `+
		`ok  fin by client`,
		a.Client, bed.HostPort(b.Net.Pod(0).IPv4.String(), bed.PodPort))
	line := regexp.MustCompile(want)
	b.Eventually("the line "+want, func() bool { return line.MatchString(d.Log.String()) })
}

func TestRecordsFollowRotation(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	old := d.File + ".1"
	b.Tally(5, 1, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
	b.Eventually("5 records", func() bool { return len(d.Records()) == 5 })
	b.Must(os.Rename(d.File, old))
	b.Eventually("a new file", func() bool { _, err := os.Stat(d.File); return err == nil })
	b.Tally(5, 1, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
	b.Eventually("10 records in two files", func() bool { return len(d.Records())+len(bed.ReadRecords(t, old)) == 10 })
	if n := len(bed.ReadRecords(t, old)); n != 5 {
		t.Errorf("the old file has %d records, want 5", n)
	}
}

// A full disk does not stop traffic. Write errors are counted, and records are written once there is space again.
func TestRecordsOnAFullDisk(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	disk := filepath.Join(b.Dir, "disk")
	b.Must(os.Mkdir(disk, 0o700))
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(disk, unix.MNT_DETACH) }()
	filler, file := filepath.Join(disk, "filler"), filepath.Join(disk, "records")
	d := b.Start(b.Cart(0), "--connection-log="+file)
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk has space for a megabyte")
	}
	b.Tally(50, 10, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
	b.Eventually("the errors to be counted", func() bool { return d.Metric("portald_connection_log_errors_total") > 0 })
	if got := b.Tally(50, 10, b.Client, "tcp", bed.HostPort(bed.IP4, 80)); got["pod0"] != 50 {
		t.Errorf("on a full disk: %v served, want 50", got)
	}
	if n := strings.Count(d.Log.String(), "Cannot write connection log"); n != 1 {
		t.Errorf("the error was logged %d times, want once", n)
	}
	b.Must(os.Remove(filler))
	b.Eventually("all records", func() bool { return len(bed.ReadRecords(t, file)) == 100 })
}

// The reader of standard error has stalled: traffic continues, and changes are applied.
func TestStandardErrorBlocks(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	b.WriteManifest(bed.Manifest, b.Cart(0))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	cmd := b.Node.Command(t.Context(), bed.Portald, "--manifests", filepath.Join(b.Dir, bed.Manifest),
		"--connection-log=-")
	cmd.Stderr = w
	b.Must(cmd.Start())
	w.Close()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // SIGTERM would wait for the blocked log
		_ = cmd.Wait()
	}()
	b.Eventually("portald to serve", b.Served)
	if got := b.Tally(500, 10, b.Client, "tcp", bed.HostPort(bed.IP4, 80)); got["pod0"] != 500 {
		t.Errorf("%v served, want 500", got)
	}
	b.WriteManifest(bed.Manifest, b.Cart(1))
	b.ServedBy(bed.IP4, "pod1")
}
