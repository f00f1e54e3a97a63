package inspect

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

// Only the portald of this very pod counts, once it has applied everything.
func TestReady(t *testing.T) {
	b := newBed(t)
	for name, test := range map[string]struct {
		of, serving string // instances
		applied     bool
		want        string // "" for ready
	}{
		"it serves":                          {"new", "new", true, ""},
		"it has not applied everything":      {"new", "new", false, "its first sync is not done"},
		"another serves":                     {"new", "old", true, "still serves this node: version v1, instance old, since"},
		"another without a name serves":      {"new", "", true, "this node: version v1, since 2026-01-02T03:04:05Z"},
		"any will do":                        {"", "old", true, ""},
		"any will do, and has to be ready":   {"", "old", false, "its first sync is not done"},
		"none has a name":                    {"", "", true, ""},
		"what another says is not commands":  {"new", "\x1b[31m", true, `instance \x1b[31m`},
		"another that is not ready is there": {"new", "old", false, "another portald still serves"},
	} {
		t.Setenv(adminsocket.InstanceVariable, test.of)
		b.info = adminsocket.Info{Version: "v1", Instance: test.serving, Ready: test.applied,
			Started: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
		got := b.run("ready")
		if test.want == "" {
			if got.err != nil || got.out != "ready\n" {
				t.Errorf("%s: %q, %v", name, got.out, got.err)
			}
			continue
		}
		if got.code() != 1 || got.out != "" || !strings.HasPrefix(got.err.Error(), "not ready: ") ||
			!strings.Contains(got.err.Error(), test.want) || strings.Contains(got.err.Error(), "\n") {
			t.Errorf("%s: code %d, %q, %v", name, got.code(), got.out, got.err)
		}
	}
	b.stop()
	got := b.run("ready")
	if got.code() != 1 || got.err.Error() != "not ready: no daemon answers at "+b.socket {
		t.Errorf("code %d, %v", got.code(), got.err)
	}
	if got := b.run("ready", "now"); got.code() != exitUsage {
		t.Errorf("with an argument: %v", got.err)
	}
}

// A daemon that does not answer is none that is ready, and neither is one that is not waited for.
func TestReadyOfSilence(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	newBed(t) // skips where sockets are others
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	check(t, err)
	defer l.Close()
	began := time.Now()
	got := run(t.Context(), "", "ready", "--socket", socket)
	took := time.Since(began)
	if got.code() != 1 || !strings.HasSuffix(got.err.Error(), "does not answer within 3s") || took > 10*time.Second {
		t.Errorf("after %s: code %d, %v", took, got.code(), got.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := run(ctx, "", "ready", "--socket", socket); got.code() != 1 {
		t.Errorf("after Ctrl-C: code %d", got.code())
	}
}
