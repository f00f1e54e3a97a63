package windows

import (
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// The commands that look into the daemon reach it by its named pipe, and say so if nobody listens there.
func TestCommandsReachTheDaemon(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	b.Open(bed.HostPort(bed.IP4, 80))
	run := func(args ...string) (string, error) {
		line := b.Line(args...)
		return b.Try(b.Node, line[0], line[1:]...)
	}
	// Wine connects the first client to the instance of the pipe that go-winio only reserves the name by.
	_, _ = b.Try(b.Node, "timeout", append([]string{"3"}, b.Line("loglevel", "--socket", d.Socket)...)...)
	out, err := run("conns", "--socket", d.Socket)
	if err != nil || !strings.Contains(out, "shop/cart:http") {
		t.Errorf("%s %v", out, err)
	}
	if out, err := run("loglevel", "info", "--socket", d.Socket); err != nil {
		t.Errorf("%s %v", out, err)
	}
	if out, err = run("conns", "--socket", d.Socket+"-none"); err == nil ||
		!strings.Contains(out+err.Error(), "not reachable") {
		t.Errorf("without a daemon: %s %v", out, err)
	}
}
