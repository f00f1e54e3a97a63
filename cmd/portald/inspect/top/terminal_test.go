package top

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/netnstest"
)

// socketOfTop has this test binary be portald top of the daemon at that socket.
const socketOfTop = "TEST_SOCKET_OF_TOP"

func TestMain(m *testing.M) {
	socket := os.Getenv(socketOfTop)
	if socket == "" {
		os.Exit(m.Run())
	}
	cmd := Command()
	cmd.SetArgs([]string{"--socket", socket})
	if err := cmd.Execute(); err != nil {
		os.Exit(1)
	}
}

// On a terminal of another size than 80 x 24 the whole of it is drawn, q leaves it, and it is as before.
func TestOnATerminal(t *testing.T) {
	script, err := exec.LookPath("script")
	if err != nil && runtime.GOOS == "windows" {
		t.Skip("script, which makes a terminal, is of Unix")
	}
	if err != nil {
		netnstest.Missing(t, "needs script (Debian package bsdutils), which makes a terminal: %v", err)
	}
	b := market(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, script, "-qefc", "stty rows 20 cols 150; "+os.Args[0], os.DevNull)
	cmd.Env = append(os.Environ(), socketOfTop+"="+b.socket, "TERM=xterm")
	keys, err := cmd.StdinPipe()
	check(t, err)
	drawn, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	const left = "\x1b[?1049l" // the alternate screen
	var all bytes.Buffer
	for buf := make([]byte, 1<<16); ; {
		n, err := drawn.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			break
		}
		if text := all.String(); strings.Contains(text, "shop/dns") && !strings.Contains(text, left) {
			_, _ = keys.Write([]byte("q")) // what comes after top has left is echoed, for ever
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(all.String(), "3 records") ||
		!strings.Contains(all.String(), left) {
		t.Errorf("%v, drawn %q", err, all.String())
	}
}

func TestNeedsATerminal(t *testing.T) {
	cmd := Command()
	cmd.SetArgs(nil)
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(&bytes.Buffer{})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "portald conns --watch") {
		t.Error(err)
	}
	cmd.SetArgs([]string{"--interval", "1ms"})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "--interval 1ms: must be 200ms or more") {
		t.Error(err)
	}
}
