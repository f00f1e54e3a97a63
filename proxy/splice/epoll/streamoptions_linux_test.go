package epoll

import (
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// Both sides get keepalive, the endpoint's not before the connection is a second old.
func TestKeepalive(t *testing.T) {
	r := newRigOf(t, 1, splice.Options{})
	at := r.open(t, serveTCP(t, echo))
	l := r.loops[0]
	before := l.clock()
	client := dialTCP(t, at)
	client.Write([]byte("x"))
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if _, endpoint, at := keepalives(l); endpoint.Idle > 0 && at < before+keepaliveAfter {
		t.Errorf("keepalive of the endpoint %s after the begin: %+v", at-before, endpoint)
	}
	eventually(t, func() bool {
		_, endpoint, _ := keepalives(l)
		return endpoint.Idle > 0
	}, "the endpoint's keepalive begins")
	ofClient, ofEndpoint, _ := keepalives(l)
	if want := splice.DefaultKeepalive(); ofClient != want || ofEndpoint != want {
		t.Errorf("client %+v, endpoint %+v, want %+v", ofClient, ofEndpoint, want)
	}
}

// keepalives are those of the loop's one connection, and the time.
func keepalives(l *loop) (client, endpoint splice.Keepalive, at time.Duration) {
	done := make(chan struct{})
	l.do(func() {
		defer close(done)
		at = l.clock()
		for _, s := range l.watches.slots {
			if c, ok := s.h.(*conn); ok {
				client, endpoint = keepaliveOf(c.relay.client.fd), keepaliveOf(c.relay.endpoint.fd)
			}
		}
	})
	<-done
	return client, endpoint, at
}

// keepaliveOf is the zero value of a socket without.
func keepaliveOf(fd int) splice.Keepalive {
	get := func(level, name int) int {
		n, _ := unix.GetsockoptInt(fd, level, name)
		return n
	}
	if get(unix.SOL_SOCKET, unix.SO_KEEPALIVE) == 0 {
		return splice.Keepalive{}
	}
	return splice.Keepalive{
		Idle:     time.Duration(get(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)) * time.Second,
		Interval: time.Duration(get(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)) * time.Second,
		Count:    get(unix.IPPROTO_TCP, unix.TCP_KEEPCNT),
	}
}
