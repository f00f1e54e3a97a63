package splicetest

import (
	"io"
	"net"
	"time"

	"github.com/portald/portald/proxy/splice"
)

func blockedScenarios() []scenario {
	return []scenario{
		{name: "BlockedByClient", run: blockedByClient},
		{name: "BlockedByEndpoint", run: blockedByEndpoint},
		{name: "BlockedUntilTheEnd", run: blockedUntilTheEnd},
		{name: "NotBlocked", run: notBlocked},
	}
}

// pause is how long a peer does not read once all buffers on the way to it are full.
const pause = 300 * time.Millisecond

// aLot is more than all buffers on the way take.
const aLot = 64 << 20

// waitStalled waits until nothing moves any more, and then for longer than the pause. Time alone does not tell: on a
// busy machine the engine may have had none of it.
func waitStalled(d *dataPath) {
	d.t.Helper()
	moved, looks := int64(0), 0
	d.t.eventually("bytes are waiting", func() bool {
		l := liveOf(d)
		if n := l.BytesToClient + l.BytesToEndpoint; n != moved {
			moved, looks = n, 0
		}
		looks++
		time.Sleep(10 * time.Millisecond)
		return moved > 0 && looks > 30
	})
	time.Sleep(2 * pause)
}

// blockedByClient: a client that does not read for some time is blamed for that time, and the endpoint is not.
func blockedByClient(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) { c.Write(make([]byte, aLot)) }))
	c := dialTCP(t, f.at)
	waitStalled(d)
	n, err := io.Copy(io.Discard, c)
	c.Close()
	rec := d.record()
	if n != aLot || rec.ClientBlocked < pause || rec.ClientBlocked > rec.Duration || rec.EndpointBlocked != 0 {
		t.Errorf("%d bytes, %v: record %+v", n, err, rec)
	}
}

// blockedByEndpoint: the same of an endpoint.
func blockedByEndpoint(t *trial) {
	d := t.start(splice.Options{})
	read := make(chan struct{})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		<-read
		io.Copy(io.Discard, c)
	}))
	c := dialTCP(t, f.at)
	go func() {
		c.Write(make([]byte, aLot))
		c.CloseWrite()
	}()
	waitStalled(d)
	close(read)
	wantRest(t, c, "")
	rec := d.record()
	if rec.BytesToEndpoint != aLot || rec.EndpointBlocked < pause || rec.EndpointBlocked > rec.Duration ||
		rec.ClientBlocked != 0 {
		t.Errorf("record %+v", rec)
	}
}

// blockedUntilTheEnd: what waits when the connection ends has waited as well.
func blockedUntilTheEnd(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) { c.Write(make([]byte, aLot)) }))
	c := dialTCP(t, f.at)
	waitStalled(d)
	reset(c)
	rec := d.record()
	if rec.ClientBlocked < pause || rec.ClientBlocked > rec.Duration || rec.EndpointBlocked != 0 {
		t.Errorf("record %+v", rec)
	}
}

// notBlocked: who takes all that comes is not blamed for pauses in which nothing does. An engine whose writes wait by
// themselves takes one that was interrupted for a wait.
func notBlocked(t *trial) {
	d := t.start(splice.Options{})
	c := dialTCP(t, d.tcp(echoServer(t)).at)
	exchange(t, c)
	time.Sleep(pause)
	wantEcho(t, c, "x")
	if rec := d.record(); rec.ClientBlocked > pause/2 || rec.EndpointBlocked > pause/2 {
		t.Errorf("record %+v", rec)
	}
}
