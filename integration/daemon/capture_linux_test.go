package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// running is a portald capture that has begun.
type running struct {
	*bed.Bed
	file  string
	said  *bed.Output
	ended chan error
	stop  func()
}

// captureOf starts portald capture, and returns once it captures.
func captureOf(d *bed.Daemon, args ...string) *running {
	d.Helper()
	c := &running{Bed: d.Bed, file: filepath.Join(d.TempDir(), "packets.pcapng"), said: &bed.Output{},
		ended: make(chan error, 1)}
	line := d.Line(append([]string{"capture", "--socket", d.Socket, "-w", c.file}, args...)...)
	cmd := d.Node.Command(d.Context(), line[0], line[1:]...)
	cmd.Stderr = c.said
	d.Must(cmd.Start())
	c.stop = func() { _ = cmd.Process.Signal(syscall.SIGINT) }
	go func() { c.ended <- cmd.Wait() }()
	d.Eventually("a capture that has begun", func() bool {
		return strings.Contains(c.said.String(), "Capturing ") || len(c.ended) > 0
	})
	return c
}

// wait returns what the command says when it has ended.
func (c *running) wait() string {
	c.Helper()
	select {
	case err := <-c.ended:
		if err != nil {
			c.Fatalf("portald capture: %v\n%s", err, c.said)
		}
	case <-time.After(time.Minute):
		c.Fatalf("portald capture goes on\n%s", c.said)
	}
	return c.said.String()
}

// fields are fields of the packets in the file that match a filter of tshark's, with | between them.
func (c *running) fields(filter string, names ...string) []string {
	c.Helper()
	args := []string{"-r", c.file, "-Y", filter, "-T", "fields", "-E", "separator=|", "-E", "aggregator=;"}
	for _, n := range names {
		args = append(args, "-e", n)
	}
	out := c.On(c.Node, "tshark", args...)
	return slices.Collect(strings.Lines(out))
}

// tshark follows both sides of a connection in every mode, found by its record, and sees only headers.
func TestCapture(t *testing.T) {
	topology.Require(t, "tshark")
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		b.ServePods(0)
		d := b.Start(b.Cart(0), m.Args...)
		c := captureOf(d, "shop/cart", "--duration", "4s")
		a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		b.Must(err)
		said := c.wait()
		for _, part := range []string{"headers only", "it took 4s", "the kernel dropped 0 of"} {
			if !strings.Contains(said, part) {
				t.Errorf("no %q in %s", part, said)
			}
		}
		client := fmt.Sprintf("ip.addr == %s && tcp.port == %d && ip.addr == %s", a.Client.Addr(), a.Client.Port(), bed.IP4)
		for side, filter := range map[string]string{
			"client side":   client,
			"endpoint side": fmt.Sprintf("ip.addr == %s && tcp.port == 8080", b.Net.Pod(0).IPv4),
		} {
			flags := strings.Join(c.fields(filter, "tcp.flags.str"), "")
			if strings.Count(flags, "S") < 2 || strings.Count(flags, "F") < 2 {
				t.Errorf("%s: no whole connection: flags %q", side, flags)
			}
			for _, line := range c.fields(filter, "frame.comment", "frame.interface_name") {
				if !strings.Contains(line, "shop/cart:http, "+side) || !strings.Contains(line, "pod0") ||
					!strings.Contains(line, "/") {
					t.Errorf("%s: comment and interface %q", side, line)
				}
				if !m.Kernel && !strings.Contains(line, "record 1;") {
					t.Errorf("%s: comment %q does not name the record", side, line)
				}
			}
		}
		if payload := c.fields("tcp.payload", "tcp.payload"); len(payload) > 0 {
			t.Errorf("%d packets have payload", len(payload))
		}
		if info, err := os.Stat(c.file); err != nil || info.Mode() != 0o600 {
			t.Errorf("the file is for %v, %v", info.Mode(), err)
		}
	})
}

// With --outcome there are only packets of connections that ended so, and all of them, with the payload if asked.
func TestCaptureByOutcome(t *testing.T) {
	b := bed.New(t, "tshark")
	b.Serve(b.Net.Pod(0), 8080, func(c *net.TCPConn) {
		if ask, _ := io.ReadAll(io.LimitReader(c, 5)); bytes.Equal(ask, []byte("reset")) {
			b.Must(c.SetLinger(0))
			return
		}
		fmt.Fprintln(c, "fine")
	})
	d := b.Start(b.Cart(0))
	c := captureOf(d, "shop/cart", "--outcome", "endpoint_reset", "--payload", "--duration", "1m")
	ask := func(text string) net.Conn {
		conn, err := bed.Dial(bed.LongestTest, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		b.Must(err)
		defer conn.Close()
		_, err = io.WriteString(conn, text)
		b.Must(err)
		_, _ = io.ReadAll(conn)
		return conn
	}
	ask("hello")
	reset := bed.LocalAddr(ask("reset"))
	ask("hello")
	record := d.RecordWhere("of the reset", func(r bed.Record) bool { return r.Client == reset.String() })
	b.Eventually("packets in the file", func() bool {
		info, err := os.Stat(c.file)
		return err == nil && info.Size() > 1000 // more than its header
	})
	c.stop()
	said := c.wait()
	lines := c.fields("tcp", "frame.comment")
	if len(lines) < 8 {
		t.Errorf("%d packets\n%s", len(lines), said)
	}
	for _, line := range lines {
		if !strings.Contains(line, "outcome endpoint_reset") ||
			!strings.Contains(line, fmt.Sprintf("record %d;", record.ID)) {
			t.Errorf("comment %q", line)
		}
	}
	if payload := c.fields("tcp.payload", "tcp.payload"); len(payload) < 2 || !strings.Contains(payload[0], "7265736574") {
		t.Errorf("payload %q, want reset on both sides", payload)
	}
	if n := len(c.fields("tcp.flags.reset == 1", "frame.number")); n < 2 {
		t.Errorf("%d resets, want one on each side", n)
	}
}

// A UDP session is captured on both sides, by its record.
func TestCaptureUDP(t *testing.T) {
	b := bed.New(t, "tshark")
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	c := captureOf(d, "shop/cart:talk", "--duration", "4s")
	_, err := bed.Ask(b.Client, "udp", bed.HostPort(bed.IP4, 80))
	b.Must(err)
	said := c.wait()
	for _, side := range []string{"client side", "endpoint side"} {
		comment := "shop/cart:talk, " + side + ", record 1;"
		lines := c.fields(fmt.Sprintf("udp && frame.comment contains %q", comment), "frame.number")
		if len(lines) < 2 {
			t.Errorf("%d packets of the %s\n%s", len(lines), side, said)
		}
	}
}

// Another program reads packets as they come, and its end is the capture's.
func TestCaptureFollow(t *testing.T) {
	b := bed.New(t, "tshark", "sh")
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	stop := b.Load(bed.HostPort(bed.IP4, 80))
	defer stop()
	line := d.Line("capture", "shop/cart", "--follow", "--filter", "tcp[tcpflags] & tcp-syn != 0", "--socket", d.Socket)
	out := b.On(b.Node, "sh", "-c",
		strings.Join(quoted(line), " ")+" 2>/dev/null | tshark -c 4 -i - -T fields -e tcp.flags.syn")
	if out != strings.Repeat("1\n", 4) && out != strings.Repeat("True\n", 4) {
		t.Errorf("tshark prints %q", out)
	}
}

func quoted(line []string) (all []string) {
	for _, word := range line {
		all = append(all, "'"+word+"'")
	}
	return all
}

// Without NET_RAW portald names the capability, and how it is added; a Service that is not there is said; and no more
// than two captures run.
func TestCaptureRefused(t *testing.T) {
	b := bed.New(t, "setpriv")
	b.ServePods(0)
	path := b.WriteManifest(bed.Manifest, b.Cart(0))
	d := b.Launch([]string{"setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"}, "--manifests", path)
	d.WaitReady()
	refused := func(d *bed.Daemon, what, why string) {
		t.Helper()
		file := filepath.Join(d.TempDir(), "packets.pcapng")
		line := d.Line("capture", what, "-w", file, "--socket", d.Socket)
		_, err := b.Try(b.Node, line[0], line[1:]...)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v; want %q", err, why)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("a file is left")
		}
	}
	refused(d, "shop/cart", "the capability NET_RAW")
	refused(d, "shop/none", "exit status 4")
	d.Stop()
	d = b.Start(b.Cart(0))
	first, second := captureOf(d, "shop/cart"), captureOf(d, "shop/cart")
	refused(d, "shop/cart", "2 clients capture packets already")
	first.stop()
	first.wait()
	second.stop()
	second.wait()
	third := captureOf(d, "shop/cart")
	third.stop()
	third.wait()
}
