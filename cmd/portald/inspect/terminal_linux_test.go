package inspect

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newTerminal returns a terminal of so many columns and rows, and what is shown on it.
func newTerminal(t *testing.T, columns, rows uint16) (*os.File, *lockedBuffer) {
	shows, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	check(t, err)
	check(t, unix.IoctlSetPointerInt(int(shows.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(shows.Fd()), unix.TIOCGPTN)
	check(t, err)
	terminal, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	check(t, err)
	check(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}))
	shown := &lockedBuffer{}
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := shows.Read(buf)
			if err != nil {
				return
			}
			shown.Write(buf[:n])
		}
	}()
	t.Cleanup(func() { terminal.Close(); shows.Close() })
	return terminal, shown
}

var codes = regexp.MustCompile("\x1b\\[[0-9]*[a-zA-Z]")

// Colours are for terminals, unless NO_COLOR is set, and change no column.
func TestColors(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for _, line := range [][]string{{"conns"}, {"tail"}, {"tail", "-o", "table"}, {"endpoints"}, {"services"}} {
		b := newBed(t)
		b.connections, b.services, b.endpoints = conns(), services3(), endpoints3()
		b.observe(ended()...)
		want := b.run(line...).out
		for noColor, colored := range map[string]bool{"": true, "1": false} {
			t.Setenv("NO_COLOR", noColor)
			terminal, shown := newTerminal(t, 80, 24)
			root := newRoot()
			root.SetOut(terminal)
			root.SetArgs(append(line, "--socket", b.socket))
			check(t, root.ExecuteContext(t.Context()))
			plain := func() string {
				return strings.ReplaceAll(codes.ReplaceAllString(shown.String(), ""), "\r\n", "\n")
			}
			for range 500 {
				if plain() == want {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if has := codes.MatchString(shown.String()); has != colored || plain() != want {
				t.Errorf("%v with NO_COLOR=%q prints\n%q", line, noColor, shown)
			}
		}
	}
}

// On a terminal each list takes the place of the one before, and is as wide and high as it.
func TestWatchOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	b := newBed(t)
	for range 10 {
		b.connections = append(b.connections, conns()...)
	}
	terminal, shown := newTerminal(t, 40, 6)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	root := newRoot()
	root.SetOut(terminal)
	root.SetArgs([]string{"conns", "-w", "--interval", "100ms", "--socket", b.socket})
	ended := make(chan error)
	go func() { ended <- root.ExecuteContext(ctx) }()
	for range 1000 {
		if strings.Count(shown.String(), toTop) > 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	check(t, <-ended)
	screens := strings.Split(shown.String(), toTop)
	if len(screens) < 3 || !strings.HasSuffix(screens[1], clearBelow) {
		t.Fatalf("shows %q", shown)
	}
	lines := strings.Split(codes.ReplaceAllString(screens[1], ""), "\r\n")
	if len(lines) != 5+1 { // and nothing behind the last, so that the screen does not roll
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	for _, line := range lines {
		if line = strings.TrimRight(line, "\r"); len(line) > 40 {
			t.Errorf("%q is wider than the terminal", line)
		}
	}
	if !strings.HasPrefix(lines[0], "ID   SERVICE") {
		t.Errorf("begins with %q", lines[0])
	}
}
