package splicetest

import (
	"io"
	"net"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func resetScenarios() []scenario {
	return []scenario{
		{name: "ResetByClient", run: resetByClient},
		{name: "ResetByEndpoint", run: resetByEndpoint},
		{name: "ResetByClientAfterItsEnd", run: resetByClientAfterItsEnd, needs: ResetsAfterEnd},
	}
}

// resetByClient: a reset by the client is a reset for the endpoint.
func resetByClient(t *trial) {
	seen := make(chan error, 1)
	d := t.start(splice.Options{})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 5))
		c.Write([]byte("x"))
		_, err := c.Read(make([]byte, 1))
		seen <- err
	}))
	c := dialTCP(t, f.at)
	c.Write([]byte("hello"))
	io.ReadFull(c, make([]byte, 1))
	reset(c)
	if err := <-seen; !isReset(err) {
		t.Errorf("endpoint sees %v, want a reset", err)
	}
	rec := d.record()
	if rec.ClosedBy != record.Client || rec.CloseType != record.Reset || rec.Outcome != record.OutcomeClientReset {
		t.Errorf("record %+v", rec)
	}
}

// resetByEndpoint: a reset by the endpoint is a reset for the client.
func resetByEndpoint(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 5))
		awaitReader()
		c.SetLinger(0)
	}))
	c := dialTCP(t, f.at)
	c.Write([]byte("hello"))
	if _, err := c.Read(make([]byte, 1)); !isReset(err) {
		t.Errorf("client sees %v, want a reset", err)
	}
	rec := d.record()
	if rec.ClosedBy != record.Endpoint || rec.CloseType != record.Reset || rec.Outcome != record.OutcomeEndpointReset {
		t.Errorf("record %+v", rec)
	}
}

func resetByClientAfterItsEnd(t *trial) {
	d := t.start(splice.Options{})
	c := dialTCP(t, d.tcp(idleServer(t)).at)
	c.CloseWrite()
	time.Sleep(20 * time.Millisecond)
	reset(c)
	if rec := d.record(); rec.Outcome != record.OutcomeClientReset {
		t.Errorf("record %+v", rec)
	}
}
