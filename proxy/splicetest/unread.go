package splicetest

import (
	"net"
	"time"

	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/splice"
)

func unreadScenarios() []scenario {
	return []scenario{{name: "UnreadDownloads", run: unreadDownloads}}
}

// unreadDownloads: clients that do not read their responses get all of them in the end, and take few pipes meanwhile.
func unreadDownloads(t *trial) {
	const clients, size = 60, 4 << 20 // more than the sockets take
	want := stream{noiseOf(size)}
	d := t.start(splice.Options{Account: quota.NewAccount(quota.Budget{PipePages: 1024, Buffers: 10})})
	own := d.Stats().Descriptors
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) { c.Write(want[0]) }))
	var conns []*net.TCPConn
	for range clients {
		c := dialTCP(t, f.at)
		c.SetReadBuffer(64 << 10)
		conns = append(conns, c)
	}
	t.eventually("all are admitted", func() bool {
		s := d.Stats()
		return s.Descriptors-2*s.Pipes >= own+2*clients+1
	})
	time.Sleep(300 * time.Millisecond) // the sockets are full by then
	if s := d.Stats(); s.Pipes > 32 || s.Descriptors != own+2*clients+1+2*s.Pipes {
		t.Errorf("%d clients hold %d descriptors and %d pipes", clients, s.Descriptors-own, s.Pipes)
	}
	for _, c := range conns {
		c.SetDeadline(time.Now().Add(time.Minute)) // of each: they are read one after another
		if n, err := want.receive(c); err != nil || n != size {
			t.Fatalf("got %d bytes of %d, %v", n, size, err)
		}
		c.Close()
	}
	for range clients {
		if rec := d.record(); rec.BytesFromEndpoint != size || rec.BytesToClient != size {
			t.Fatalf("record %+v, want %d bytes", rec, size)
		}
	}
	t.eventually("all is given back but the listener", func() bool {
		s := d.Stats()
		return s.Pipes == 0 && s.Descriptors == own+1
	})
}
