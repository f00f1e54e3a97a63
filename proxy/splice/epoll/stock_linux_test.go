package epoll

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/splice"
)

// Clients that do not read their responses take few pipes and little memory, and get all of them in the end.
func TestUnreadDownloads(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const clients, size = 60, 8 << 20 // more than the sockets take
	want := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	account := quota.NewAccount(quota.Budget{PipePages: 1024, Buffers: 10})
	r := newRig(t, splice.Options{Account: account})
	at := r.open(t, serveTCP(t, func(c *net.TCPConn) { c.Write(want) }))
	var conns []*net.TCPConn
	for range clients {
		c := dialTCP(t, at)
		c.SetDeadline(time.Time{}) // 480 MB take a busy machine long
		c.SetReadBuffer(64 << 10)
		conns = append(conns, c)
	}
	eventually(t, func() bool {
		return r.Stats().Pipes > 0 && account.Buffers.Exhausted() && r.Stats().Connections == clients
	}, "all connections hold bytes, or have left them where they are, and pipes and buffers are short")
	s := r.Stats()
	loops := int64(len(r.loops))
	if s.Pipes > 32 || r.Stats().PipePages > 1024 || r.Stats().Buffers > 10+loops {
		t.Errorf("%d pipes of %d pages, %d buffers", s.Pipes, r.Stats().PipePages, r.Stats().Buffers)
	}
	if held := int64(2*clients+1) + 2*s.Pipes + loops*pollerDescriptors; s.Descriptors != held {
		t.Errorf("%d descriptors are in the account, %d are held", s.Descriptors, held)
	}
	for _, c := range conns {
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes of %d, %v", len(got), size, err)
		}
		c.Close()
	}
	for range clients {
		if rec := r.record(t); rec.BytesFromEndpoint != size || rec.BytesToClient != size {
			t.Fatalf("the record has %d bytes from the endpoint and %d to the client, want %d",
				rec.BytesFromEndpoint, rec.BytesToClient, size)
		}
	}
	eventually(t, func() bool {
		s := r.Stats()
		return s.Pipes == 0 && s.Buffers == 0 && s.PipePages == 0
	}, "all pipes and buffers are given back")
}
