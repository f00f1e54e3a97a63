package splicetest

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func halfCloseScenarios() []scenario {
	return []scenario{
		{name: "HalfCloseByClient", run: halfCloseByClient},
		{name: "HalfCloseByEndpoint", run: halfCloseByEndpoint},
		{name: "HalfCloseTimeout", run: halfCloseTimeout},
		{name: "HalfCloseTimeoutOfSilenceAlone", run: halfCloseTimeoutOfSilenceAlone},
		{name: "HalfCloseNever", run: halfCloseNever},
	}
}

// halfCloseByClient: the client ends its direction first, the other goes on until its own end.
func halfCloseByClient(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		asked, _ := io.ReadAll(c)
		time.Sleep(50 * time.Millisecond)
		fmt.Fprintf(c, "answer to %s", asked)
	}))
	c := dialTCP(t, f.at)
	c.Write([]byte("question"))
	c.CloseWrite()
	wantRest(t, c, "answer to question")
	if rec := d.record(); rec.ClosedBy != record.Client || rec.Outcome != record.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
}

// halfCloseByEndpoint: the endpoint ends its direction first, the other goes on until its own end.
func halfCloseByEndpoint(t *trial) {
	received := make(chan string, 1)
	d := t.start(splice.Options{})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		c.Write([]byte("banner"))
		c.CloseWrite()
		all, _ := io.ReadAll(c)
		received <- string(all)
	}))
	c := dialTCP(t, f.at)
	wantRest(t, c, "banner")
	c.Write([]byte("late words"))
	c.Close()
	if got := <-received; got != "late words" {
		t.Fatalf("endpoint received %q", got)
	}
	rec := d.record()
	if rec.ClosedBy != record.Endpoint || rec.CloseType != record.FIN || rec.Outcome != record.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
}

func halfCloseTimeout(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{HalfClose: 100 * time.Millisecond}})
	c := dialTCP(t, d.tcp(idleServer(t)).at)
	c.CloseWrite()
	if _, err := c.Read(make([]byte, 1)); !isReset(err) {
		t.Errorf("client sees %v, want a reset", err)
	}
	rec := d.record()
	if rec.Outcome != record.OutcomeHalfClosed || rec.ClosedBy != record.Proxy || rec.CloseType != record.Timeout ||
		rec.Duration < 100*time.Millisecond {
		t.Errorf("record %+v", rec)
	}
}

// halfCloseTimeoutOfSilenceAlone: bytes in the open direction keep a half-closed connection alive.
func halfCloseTimeoutOfSilenceAlone(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{HalfClose: 3 * silence}})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		for range 4 {
			c.Write([]byte("."))
			time.Sleep(silence)
		}
	}))
	c := dialTCP(t, f.at)
	c.CloseWrite()
	wantRest(t, c, "....")
}

// halfCloseNever: a half-closed connection that may be silent for ever outlives the idle timeout as well.
func halfCloseNever(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{Idle: silence, HalfClose: service.Never}})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		io.Copy(io.Discard, c)
		time.Sleep(3 * silence / 2)
		c.Write([]byte("late"))
	}))
	c := dialTCP(t, f.at)
	c.CloseWrite()
	wantRest(t, c, "late")
}
