package inspect

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/proxy/adminsocket"
)

func TestCutByID(t *testing.T) {
	b := newBed(t)
	b.connections = conns()
	got := b.run("cut", "7", "19")
	if got.out != "Cut 2 connections\n" || got.err != nil || !slices.Equal(b.cut, []uint64{7, 19}) {
		t.Errorf("%q %v, cut %v", got.out, got.err, b.cut)
	}
	got = b.run("cut", "8", "7", "9")
	if got.out != "Cut 1 connection\n" || got.code() != exitNothing || !strings.Contains(got.err.Error(), "cut 8, 9:") {
		t.Errorf("%q %v", got.out, got.err)
	}
}

// Connections that flags choose are cut, except for the kernel's, and not without a yes.
func TestCutByFlags(t *testing.T) {
	b := newBed(t)
	b.connections = conns()
	if got := b.run("cut", "--ip=10.0.0.9"); got.code() != exitUsage || !strings.Contains(got.err.Error(), "--yes") {
		t.Errorf("without a terminal: %v", got.err)
	}
	got := b.run("cut", "--ip=10.0.0.9", "--yes")
	if got.out != "Cut 1 connection\n" || !slices.Equal(b.cut, []uint64{7}) {
		t.Errorf("%q %v, cut %v", got.out, got.err, b.cut)
	}
	if got := b.run("cut", "--proto=udp", "--yes"); got.code() != exitNothing {
		t.Errorf("of the kernel's: %v", got.err)
	}
}

func TestCutAsks(t *testing.T) {
	b := newBed(t)
	b.connections = slices.Repeat(conns()[:1], shown+2)
	for answer, want := range map[string]int{"y\n": shown + 2, "YES\n": shown + 2, "n\n": 0, "\n": 0, "": 0, "yy\n": 0} {
		b.cut = nil
		var out bytes.Buffer
		c := cutter{dial: &Dial{}, client: adminsocket.NewClient(b.socket), in: strings.NewReader(answer), out: &out,
			interactive: true}
		if err := c.chosen(t.Context(), &selection{}); err != nil || len(b.cut) != want {
			t.Errorf("%q: %v, cut %d, want %d", answer, err, len(b.cut), want)
		}
		if text := out.String(); !strings.Contains(text, "... and 2 more\nCut 12 connections? [y/N] ") ||
			strings.Count(text, "shop/cart-a") != shown {
			t.Errorf("asks\n%s", text)
		}
	}
}

func TestLoglevel(t *testing.T) {
	b := newBed(t)
	if got := b.run("loglevel"); got.out != "info\n" || got.err != nil {
		t.Errorf("%q %v", got.out, got.err)
	}
	if got := b.run("loglevel", "debug"); got.out != "" || got.err != nil || b.level != "debug" {
		t.Errorf("%q %v, level %s", got.out, got.err, b.level)
	}
}
