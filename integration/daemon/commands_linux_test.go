package daemon

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// inspect runs one of portald's commands that ask the daemon, and returns what it prints.
func inspect(d *bed.Daemon, args ...string) string {
	d.Helper()
	return d.On(d.Node, bed.Portald, append(args, "--socket", d.Socket)...)
}

// tailing starts portald tail -f, which runs until stop, and returns what it prints.
func tailing(d *bed.Daemon, args ...string) (out *bed.Output, stop func()) {
	d.Helper()
	out = &bed.Output{}
	cmd := d.Node.Command(d.Context(), bed.Portald, append([]string{"tail", "-f", "--socket", d.Socket}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	d.Must(cmd.Start())
	return out, func() {
		d.Helper()
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		if err := cmd.Wait(); err != nil {
			d.Errorf("portald tail %v: %v\n%s", args, err, out)
		}
	}
}

// A connection is in conns while it is open; cut resets it, tail -f prints its record, and after a drain its endpoint
// gets no other.
func TestCommandsFollowAConnection(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	d := b.Start(b.Cart(0, 1))
	records, stop := tailing(d, "--last", "1", "-o", "table")
	c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
	b.Must(bed.Echoes(c, r))
	endpoint := bed.HostPort(b.Net.Pod(0).IPv4.String(), bed.PodPort)
	if a.Pod == bed.PodName(1) {
		endpoint = bed.HostPort(b.Net.Pod(1).IPv4.String(), bed.PodPort)
	}

	row := regexp.MustCompile(fmt.Sprintf(`(?m)^(\d+) +shop/cart:http +tcp +%s +%s +shop/%s +open +\d+s +\d+s +20B +2\dB$`,
		a.Client, endpoint, a.Pod))
	var found []string
	b.Eventually("the connection in conns", func() bool {
		found = row.FindStringSubmatch(inspect(d, "conns", "--service", "shop/cart"))
		return found != nil
	})
	id := found[1]
	if wide := inspect(d, "conns", "-o", "wide", "--ip", a.Client.Addr().String()); !strings.Contains(wide, "userspace") {
		t.Errorf("conns -o wide prints\n%s", wide)
	}
	words := b.On(b.Node, bed.Portald, "__completeNoDesc", "cut", "--socket", d.Socket, "")
	if !strings.Contains(words, id+"\n") {
		t.Errorf("cut is completed by %q, want %s", words, id)
	}

	if out := inspect(d, "drain", endpoint, "--service", "shop/cart:http"); !strings.Contains(out, "1 connection open") {
		t.Errorf("drain prints %s", out)
	}
	for range 4 {
		if other, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil || other.Pod == a.Pod {
			t.Errorf("while %s is drained %q answers, %v", a.Pod, other.Pod, err)
		}
	}
	if out := inspect(d, "endpoints", "shop/cart:http", "--state", "drained"); !strings.Contains(out, endpoint) {
		t.Errorf("endpoints prints\n%s", out)
	}
	inspect(d, "drain", "shop/"+a.Pod, "--undo")

	if out := inspect(d, "cut", id); out != "Cut 1 connection\n" {
		t.Errorf("cut prints %s", out)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the connection ends with %v, want a reset", err)
	}
	b.Eventually("its record", func() bool {
		return regexp.MustCompile(` ` + id + ` +shop/cart:http .* cut +`).MatchString(records.String())
	})
	stop()
	if _, err := b.Try(b.Node, bed.Portald, "cut", id, "--socket", d.Socket); err == nil ||
		!strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("cut of what has ended: %v, want exit status 4", err)
	}
}

// The answers about a Service, the log level, and the records of the past from the daemon and from its log.
func TestCommandsOfADaemon(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	for range 3 {
		if _, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil {
			t.Fatal(err)
		}
	}
	b.Eventually("the records in the log", func() bool { return len(d.Records()) == 3 })
	for _, from := range [][]string{nil, {"--input-file", d.File}} {
		out := inspect(d, append([]string{"tail", "--outcome", "ok", "--service", "cart"}, from...)...)
		if strings.Count(out, "  ok  fin by client  ") != 3 {
			t.Errorf("tail %v prints\n%s", from, out)
		}
		out = inspect(d, append([]string{"tail", "--not", "--outcome", "ok"}, from...)...)
		if out != "" {
			t.Errorf("tail of what failed %v prints\n%s", from, out)
		}
	}
	if out := inspect(d, "services", "-n", "shop", "--no-headers"); !regexp.MustCompile(
		`(?m)^shop/cart:http +tcp +userspace +\S+ +0 +3 +0 +`).MatchString(out) {
		t.Errorf("services prints\n%s", out)
	}
	if out := inspect(d, "endpoints", "shop/cart:http"); !regexp.MustCompile(
		`(?m)^shop/cart:http +tcp +\S+:8080 +shop/pod0 +used +\S+ +0 +3 +0 +`).MatchString(out) {
		t.Errorf("endpoints prints\n%s", out)
	}
	if out := inspect(d, "loglevel"); out != "debug\n" {
		t.Errorf("the log level is %q", out)
	}
	inspect(d, "loglevel", "warn")
	if out := inspect(d, "loglevel"); !strings.HasPrefix(out, "warn") {
		t.Errorf("the log level is %q after it was set", out)
	}
	d.Stop()
	if _, err := b.Try(b.Node, bed.Portald, "conns", "--socket", d.Socket); err == nil ||
		!strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), d.Socket) {
		t.Errorf("without a daemon: %v, want exit status 3", err)
	}
}

// A tail -f ends with its daemon, and says so.
func TestTailEndsWithTheDaemon(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	cmd := b.Node.Command(t.Context(), bed.Portald, "tail", "-f", "--socket", d.Socket)
	out := &bed.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	b.Must(cmd.Start())
	b.Eventually("a record", func() bool {
		_, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		return err == nil && out.String() != ""
	})
	d.Stop()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 || !strings.Contains(out.String(), "ended") {
		t.Errorf("tail -f ends with %v\n%s", err, out)
	}
}

// The daemon is ready for the instance that it was started as, and for any unnamed one; its end is no readiness.
func TestReadyIsOfAnInstance(t *testing.T) {
	bed.NeedsLinux(t, "the commands that tests run are those of Linux")
	b := bed.New(t)
	b.ServePods(0)
	d := b.Launch([]string{"env", "PORTALD_INSTANCE=one"}, "--manifests", b.WriteManifest(bed.Manifest, b.Cart(0)))
	d.WaitReady()
	ready := func(instance string) (string, error) {
		return b.Try(b.Node, "env", "PORTALD_INSTANCE="+instance, bed.Portald, "ready", "--socket", d.Socket)
	}
	for _, instance := range []string{"one", ""} {
		if out, err := ready(instance); err != nil || out != "ready\n" {
			t.Errorf("as %q: %q, %v", instance, out, err)
		}
	}
	if _, err := ready("two"); err == nil || !strings.Contains(err.Error(), "another portald still serves this node") ||
		!strings.Contains(err.Error(), "instance one") {
		t.Errorf("as another: %v", err)
	}
	d.Stop()
	if _, err := ready("one"); err == nil || !strings.Contains(err.Error(), "no daemon answers at "+d.Socket) {
		t.Errorf("after the end: %v", err)
	}
}

// A daemon that takes over has the records of the one before; one that starts after it ended has them in the connection
// log, and tail says from when on.
func TestTailSaysWhichRecordsAreGone(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	if _, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil {
		t.Fatal(err)
	}
	b.Eventually("its record", func() bool { return inspect(d, "tail") != "" })
	said := func(args ...string) string {
		var out bed.Output
		cmd := b.Node.Command(t.Context(), bed.Portald, append([]string{"tail", "--socket", d.Socket}, args...)...)
		cmd.Stderr = &out
		b.Must(cmd.Run())
		return out.String()
	}
	next := d.Succeed()
	d.Exit()
	next.WaitReady()
	if out := inspect(next, "tail", "--last", "1"); !strings.Contains(out, "shop/cart:http") {
		t.Errorf("tail after a take-over prints %q", out)
	}
	if out := said("--last", "1"); out != "" {
		t.Errorf("tail after a take-over says %q", out)
	}

	next.Stop()
	again := d.Succeed()
	again.WaitReady()
	if out := said("--since", "10m"); !regexp.MustCompile(`: records since \S+Z, from 1 file`).MatchString(out) {
		t.Errorf("tail after a restart says %q", out)
	}
	if out := inspect(again, "tail", "--since", "10m"); !strings.Contains(out, "shop/cart:http") {
		t.Errorf("tail after a restart prints %q", out)
	}
	if out := inspect(again, "tail", "--input-file", d.File); !strings.Contains(out, "shop/cart:http") {
		t.Errorf("tail of the log prints %q", out)
	}
}
