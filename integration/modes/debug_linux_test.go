package modes

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
	timeline "github.com/portald/portald/proxy/changes"
)

// debugUntil annotates a Service.
func debugUntil(cart bed.Service, until time.Time) bed.Service {
	cart.Annotations = annotations("debug-until: " + until.UTC().Format(time.RFC3339Nano))
	return cart
}

// modeOf is the mode of a service port of a daemon, and what it comes from.
func modeOf(d *bed.Daemon) (mode, from string) {
	d.Helper()
	all, err := d.Admin().Services(d.Context(), adminsocket.ServiceQuery{Services: []string{"cart:http"}})
	d.Must(err)
	return all[0].Mode, all[0].ModeFrom
}

// awaitMode waits until a mode is in force: its rules are written.
func awaitMode(d *bed.Daemon, mode, from string) {
	d.Helper()
	d.Eventually("the mode "+mode+" by "+from, func() bool {
		m, f := modeOf(d)
		return m == mode && f == from && !strings.Contains(linesOf(explainOf(d, "shop/cart:http", "")), "still carried by")
	})
}

// A Service that the kernel carries is debugged, which ends by itself, and before its time. No connection is refused,
// no open one breaks, and those that begin meanwhile have records.
func TestDebugUnderLoad(t *testing.T) {
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		b.ServePods(0, 1, 2)
		cart := b.Cart(0, 1, 2)
		cart.Mode = "kernel"
		d := b.Start(cart, m.Args...)
		l := putLoad(b)
		const times = 3
		for range times {
			for _, expires := range []bool{true, false} {
				b.WriteManifest(bed.Manifest, debugUntil(cart, time.Now().Add(time.Hour)))
				awaitMode(d, "userspace", "debug")
				l.goesOn()
				soon := time.Now().Add(time.Second)
				if expires {
					b.WriteManifest(bed.Manifest, debugUntil(cart, soon))
				} else {
					b.WriteManifest(bed.Manifest, cart)
				}
				awaitMode(d, "kernel", "annotation")
				if expires && time.Now().Before(soon) {
					t.Error("it has expired too early")
				}
				l.goesOn()
			}
		}
		b.Logf("%d connections", l.end(2*times))
		if len(d.Records()) == 0 {
			t.Error("no connection has a record")
		}
		var line []timeline.Line
		b.Must(d.Admin().Changes(t.Context(), adminsocket.ChangeQuery{Last: 1000}, func(c *timeline.Line) error {
			line = append(line, *c)
			return nil
		}, nil))
		for text, want := range map[string]int{
			"carried by kernel, now by userspace (debugged until ":                         2 * times,
			"carried by userspace, now by kernel (debugging is over: its time has expired": times,
			"carried by userspace, now by kernel (debugging was ended before its time":     times,
		} {
			got := 0
			for _, c := range line {
				if c.Kind == timeline.ModeChanged && strings.HasPrefix(c.Text, "shop/cart:http: "+text) {
					got++
				}
			}
			if got != want {
				t.Errorf("%d times %q, want %d", got, text, want)
			}
		}
	})
}

// A daemon that dies, and starts again, goes on until the time, and then ends it. What has expired stays so.
func TestDebugOutlivesTheDaemon(t *testing.T) {
	b := bed.New(t, "nft")
	b.ServePods(0)
	cart, args := b.Cart(0), bed.Modes()[3].Args
	d := b.Start(debugUntil(cart, time.Now().Add(time.Hour)), args...)
	again := func(until time.Time) {
		d.Signal(syscall.SIGKILL)
		d.Exit()
		d = b.Start(debugUntil(cart, until), args...)
	}
	again(time.Now().Add(time.Hour))
	if mode, from := modeOf(d); mode != "userspace" || from != "debug" {
		t.Errorf("mode %s by %s after a restart", mode, from)
	}
	explainOf(d, "shop/cart:http", "").has("Mode", "userspace, by the annotation portald.io/debug-until of the Service")
	until := time.Now().Add(2 * time.Second)
	again(until)
	awaitMode(d, "kernel", "default")
	if time.Now().Before(until) {
		t.Error("it has expired too early")
	}
	again(until)
	if mode, from := modeOf(d); mode != "kernel" || from != "default" {
		t.Errorf("mode %s by %s after another restart", mode, from)
	}
}
