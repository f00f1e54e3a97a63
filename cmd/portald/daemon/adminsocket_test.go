//go:build unix

package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/succession"
)

// Clients of the socket that say nothing, say it slowly or say too much are cut off, and keep nobody out.
func TestAdminSocketIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	log, _ := test.NewNullLogger()
	cfg := &config.Config{AdminSocket: filepath.Join(t.TempDir(), "s")}
	info := func() adminsocket.Info { return adminsocket.Info{Node: "here"} }
	server := newAdminSocket(cfg, adminsocket.NewHandler(adminsocket.Daemon{Info: info}), alone(), log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	client := adminsocket.NewClient(cfg.AdminSocket)
	reach := func() error { _, err := client.Info(t.Context()); return err }
	for begin := time.Now(); reach() != nil; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatal(reach())
		}
	}
	open := func(first string) net.Conn {
		c, err := net.Dial("unix", cfg.AdminSocket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, first) // the server may have had enough
		return c
	}
	for i := range 300 {
		open([]string{"", "GET /v1/in", "POST /v1/cut HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"}[i%3])
		if i%50 == 0 {
			if err := reach(); err != nil {
				t.Fatal(err)
			}
		}
	}
	large := open(fmt.Sprintf("GET /v1/info HTTP/1.1\r\nHost: x\r\nX-Large: %s\r\n\r\n", strings.Repeat("x", 64<<10)))
	_ = large.SetDeadline(time.Now().Add(20 * time.Second))
	if answer, _ := io.ReadAll(large); !strings.HasPrefix(string(answer), "HTTP/1.1 431") {
		t.Errorf("a large header: %.60s", answer)
	}
	slow := open("GET /v1/info HTTP/1.1\r\nHost:")
	_ = slow.SetDeadline(time.Now().Add(20 * time.Second))
	if answer, err := io.ReadAll(slow); err != nil || strings.Contains(string(answer), "200") {
		t.Errorf("a slow header: %.60s, %v", answer, err)
	}
	if err := reach(); err != nil {
		t.Error(err)
	}
}

// Whoever is told that the daemon is healthy finds its socket.
func TestNobodyListensBeforeTheAdminSocket(t *testing.T) {
	log, _ := test.NewNullLogger()
	for _, path := range []string{filepath.Join(t.TempDir(), "s"), ""} {
		cfg := &config.Config{AdminSocket: path}
		server := newAdminSocket(cfg, adminsocket.NewHandler(adminsocket.Daemon{}), alone(), log)
		listened := make(chan error, 1)
		go func() {
			_, err := server.first(func(context.Context, string, string) (net.Listener, error) {
				if path == "" {
					return nil, nil
				}
				c, err := net.Dial("unix", path)
				if err == nil {
					c.Close()
				}
				return nil, err
			})(t.Context(), "tcp", "127.0.0.1:0")
			listened <- err
		}()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- server.Run(ctx) }()
		if err := <-listened; err != nil {
			t.Errorf("socket %q: %v", path, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// alone is the state of a daemon without a predecessor.
func alone() *succession.State {
	s := succession.NewState("")
	s.Begin()
	return s
}
