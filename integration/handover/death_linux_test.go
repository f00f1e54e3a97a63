package handover

import (
	"bytes"
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

// A portald that dies leaves no peer, of a connection that nobody keeps, with an end of the stream that the other side
// did not send: it would take for all what is only some. An end from before still arrives.
func TestDeathEndsNoStream(t *testing.T) {
	for _, engine := range []string{"epoll", "goroutine"} {
		t.Run(engine, func(t *testing.T) { deathEndsNoStream(t, bed.New(t), func(*bed.Daemon) {}, "--engine="+engine) })
	}
	t.Run("the keeper has died", func(t *testing.T) {
		b := bed.New(t)
		k, socket := keeper(b)
		deathEndsNoStream(t, b, func(d *bed.Daemon) {
			b.Eventually("connections to be kept", func() bool {
				return d.Metric(`portald_resource_used{resource="kept_connections"}`) == float64(len(dying)-1)
			})
			k.Signal(syscall.SIGKILL)
			<-k.Ended
			b.Eventually("portald to miss its keeper", func() bool {
				return strings.Contains(d.Log.String(), "The keeper is gone")
			})
		}, "--keep-socket="+socket)
	})
}

// answerSize is more than a client's host takes that has a small receive buffer, and less than a send buffer.
const answerSize = 30_000

// dying are connections by what has happened before, and what their client sees after the death.
var dying = map[byte]struct {
	ends  bool // the client ends its stream
	state string
	sees  int   // bytes
	err   error // nil: the end
}{
	// It has asked, and has no answer. The same, and it sends no more.
	'q': {state: "open", err: syscall.ECONNRESET},
	'h': {ends: true, state: "half_closed", err: syscall.ECONNRESET},
	// It has a part of the answer. The same, and it sends no more.
	'p': {state: "open", sees: answerSize / 2, err: syscall.ECONNRESET},
	'b': {ends: true, state: "half_closed", sees: answerSize / 2, err: syscall.ECONNRESET},
	// All of the answer is on its way, and its end.
	'f': {state: "half_closed", sees: answerSize},
	// No endpoint is there.
	'd': {state: "waiting", err: syscall.ECONNRESET},
}

func deathEndsNoStream(t *testing.T, b *bed.Bed, before func(*bed.Daemon), args ...string) {
	results := make(chan error, len(dying))
	b.Serve(b.Net.Pod(0), bed.PodPort, func(c *net.TCPConn) {
		kind := make([]byte, 1)
		_, _ = io.ReadFull(c, kind)
		switch kind[0] {
		case 'p', 'b':
			_, _ = c.Write(make([]byte, answerSize/2))
		case 'f':
			_, _ = c.Write(make([]byte, answerSize))
			_ = c.CloseWrite()
		}
		_, err := io.Copy(io.Discard, c)
		if !dying[kind[0]].ends {
			results <- err
		}
		<-b.Context().Done()
	})
	cart := b.Cart(0)
	cart.Ports = append(cart.Ports, bed.NewPort("nobody", "TCP", 81, 0, 9001))
	d := b.Start(cart, append(args, "--wait-for-endpoint=1m")...)
	conns := map[byte]*net.TCPConn{}
	for kind, c := range dying {
		port := 80
		if kind == 'd' {
			port = 81
		}
		conn, err := bed.Dial(bed.AnswerTimeout, b.Client, "tcp", bed.HostPort(bed.IP4, port))
		b.Must(err)
		defer conn.Close()
		conns[kind] = conn.(*net.TCPConn)
		b.Must(conns[kind].SetReadBuffer(4 << 10))
		if kind != 'd' {
			_, _ = conn.Write([]byte{kind})
		}
		if c.ends {
			_ = conns[kind].CloseWrite()
		}
	}
	b.Eventually("all connections to be there", func() bool {
		all, err := d.Admin().Connections(t.Context(), adminsocket.ConnectionQuery{Protocols: []string{"tcp"}})
		n := 0
		for _, l := range all {
			for kind, conn := range conns {
				if l.Client == bed.LocalAddr(conn) && l.State == dying[kind].state && l.BytesToClient == int64(dying[kind].sees) {
					n++
				}
			}
		}
		return err == nil && n == len(conns)
	})
	before(d)
	d.Signal(syscall.SIGKILL)
	<-d.Ended
	for kind, c := range dying {
		_ = conns[kind].SetDeadline(time.Now().Add(time.Minute)) // the kernel asks an unready reader less and less often
		got, err := io.ReadAll(conns[kind])
		if !errors.Is(err, c.err) || len(got) > c.sees || c.err == nil && !bytes.Equal(got, make([]byte, c.sees)) {
			t.Errorf("%c: %d bytes of %d came, and then %v, want %v", kind, len(got), c.sees, err, c.err)
		}
		if kind != 'd' && !c.ends {
			if err := <-results; !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("an endpoint sees %v", err)
			}
		}
	}
}
