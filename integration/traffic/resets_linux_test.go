package traffic

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
)

// A server that answers and closes, and has not read all of the request, resets the connection: its kernel does. The
// client has all of the answer nevertheless, also if it reads only then, and portald is told to end meanwhile, or
// another one takes over.
func TestAnswerBeforeReset(t *testing.T) {
	bed.NeedsLinux(t, "it waits for what the client's host has acknowledged")
	for name, c := range map[string]struct {
		engine    string
		meanwhile func(d *bed.Daemon)
	}{
		"epoll":              {"epoll", func(*bed.Daemon) {}},
		"goroutine":          {"goroutine", func(*bed.Daemon) {}},
		"epoll, drained":     {"epoll", func(d *bed.Daemon) { d.Signal(syscall.SIGTERM) }},
		"goroutine, drained": {"goroutine", func(d *bed.Daemon) { d.Signal(syscall.SIGTERM) }},
		"taken over": {"epoll", func(d *bed.Daemon) {
			next := d.Succeed()
			d.Eventually("the take-over", func() bool { return strings.Contains(next.Log.String(), "Took over from") })
		}},
	} {
		t.Run(name, func(t *testing.T) { answerBeforeReset(t, c.engine, c.meanwhile) })
	}
}

func answerBeforeReset(t *testing.T, engine string, meanwhile func(*bed.Daemon)) {
	answer := make([]byte, 2<<20)
	_, _ = rand.Read(answer)
	b := bed.New(t)
	closed := make(chan struct{})
	b.Serve(b.Net.Pod(0), bed.PodPort, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_, _ = c.Write(answer)
		b.Eventually("all to have left the server", func() bool { return bed.Unacknowledged(c) == 0 })
		c.Close()
		close(closed)
	})
	d := b.Start(b.Cart(0), "--engine="+engine)
	conn, err := bed.Dial(bed.AnswerTimeout, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "??")
	<-closed
	b.Eventually("portald to know", func() bool {
		all, err := d.Admin().Connections(t.Context(), adminsocket.ConnectionQuery{Protocols: []string{"tcp"}})
		return err == nil && len(all) == 1 && (all[0].State == "delivering" || engine == "goroutine") // which may be writing
	})
	meanwhile(d)
	_ = conn.SetDeadline(time.Now().Add(bed.AnswerTimeout))
	got, err := io.ReadAll(conn)
	if !bytes.Equal(got, answer) || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d bytes of %d came, or others, and then %v", len(got), len(answer), err)
	}
	r := d.RecordOf(bed.Answer{Client: bed.LocalAddr(conn)})
	if r.ClosedBy != "endpoint" || r.Outcome != "endpoint_reset" || r.BytesFromEndpoint != int64(len(answer)) {
		t.Errorf("recorded as %s, %d bytes", r, r.BytesFromEndpoint)
	}
}
