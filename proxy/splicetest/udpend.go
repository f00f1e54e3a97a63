package splicetest

import (
	"strings"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func udpEndScenarios() []scenario {
	return []scenario{
		{name: "UDPEndpointDies", run: udpEndpointDies, needs: Refusals},
		{name: "UDPClose", run: udpClose},
	}
}

// udpEndpointDies: an endpoint that dies in mid-session is noticed at the next datagram, which then goes elsewhere.
func udpEndpointDies(t *trial) {
	d := t.start(splice.Options{})
	f := d.udp(answerOnce(t), named(t, "live"))
	c := dialUDP(t, f.at)
	ask(t, c, "1")
	t.eventually("the session moves", func() bool {
		c.Write([]byte("2"))
		c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		return err == nil && strings.HasPrefix(string(buf[:n]), "live")
	})
	if rec := d.record(); rec.Outcome != record.OutcomeEndpointReset || rec.ClosedBy != record.Endpoint {
		t.Errorf("record %+v", rec)
	}
}

// udpClose: the sessions of a front end with it, and its socket is closed.
func udpClose(t *trial) {
	d := t.start(splice.Options{})
	f := d.udp(named(t, "a"))
	c := dialUDP(t, f.at)
	ask(t, c, "x")
	f.Close()
	rec := d.record()
	if rec.Outcome != record.OutcomeServiceRemoved || rec.BytesFromClient != 1 || rec.BytesFromEndpoint != 3 {
		t.Errorf("record %+v", rec)
	}
	t.eventually("the socket is closed", func() bool {
		_, err := c.Write([]byte("x"))
		return isRefused(err)
	})
	if d.Stats().Sessions != 0 {
		t.Errorf("stats %+v", d.Stats())
	}
}
