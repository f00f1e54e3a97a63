package splicetest

import (
	"io"
	"net"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func limitScenarios() []scenario {
	return []scenario{
		{name: "ConnectionLimit", run: connectionLimit},
		{name: "UDPConnectionLimit", run: udpConnectionLimit},
		{name: "UDPSessionLimit", run: udpSessionLimit},
	}
}

// connectionLimit: of many clients that come at once exactly as many as may are served, and places are free again
// afterwards.
func connectionLimit(t *trial) {
	const most, clients = 10, 40
	d := t.start(splice.Options{})
	f := d.tcp(echoServer(t))
	f.under(service.Policy{MaxConnections: most})
	open := dialAtOnce(f, clients)
	if len(open) != most || f.Active() != most {
		t.Fatalf("%d of %d are served, %d are live", len(open), most, f.Active())
	}
	for range clients - most {
		wantOverLimit(t, d)
	}
	wantReset(t, f.at)
	wantOverLimit(t, d)
	open[0].Close()
	if rec := d.record(); rec.Outcome != record.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
	exchange(t, dialTCP(t, f.at))
	for _, c := range open {
		c.Close()
	}
}

func wantOverLimit(t *trial, d *dataPath) {
	t.Helper()
	rec := d.record()
	if rec.Outcome != record.OutcomeLimit || rec.ClosedBy != record.Proxy || rec.CloseType != record.Reset ||
		len(rec.Attempts) != 0 {
		t.Fatalf("record %+v", rec)
	}
}

// dialAtOnce returns the connections that were served.
func dialAtOnce(f *front, clients int) (open []net.Conn) {
	served := make(chan net.Conn, clients)
	for range clients {
		go func() {
			c, err := net.Dial("tcp", f.at.String())
			if err == nil {
				c.SetDeadline(time.Now().Add(longest))
				c.Write([]byte("x"))
				_, err = io.ReadFull(c, make([]byte, 1))
			}
			if err != nil {
				c = nil
			}
			served <- c
		}()
	}
	for range clients {
		if c := <-served; c != nil {
			open = append(open, c)
		}
	}
	return open
}

// udpConnectionLimit: a client more than may be has no session; those that are go on.
func udpConnectionLimit(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{MaxConnections: 1, UDPIdle: 2 * time.Second}})
	f := d.udp(named(t, "a"))
	one, two := dialUDP(t, f.at), dialUDP(t, f.at)
	ask(t, one, "1")
	two.Write([]byte("2"))
	rec := d.record()
	if rec.Outcome != record.OutcomeLimit || rec.Client != addrOf(two.LocalAddr()) || len(rec.Attempts) != 0 ||
		f.Active() != 1 {
		t.Errorf("%d live, record %+v", f.Active(), rec)
	}
	ask(t, one, "3")
	if rec := d.record(); rec.Outcome != record.OutcomeOK || rec.BytesFromClient != 2 {
		t.Errorf("record %+v", rec)
	}
	wantAnswer(t, two, "4", "a 4")
}

// udpSessionLimit: the least recently used session makes room.
func udpSessionLimit(t *trial) {
	d := t.start(splice.Options{UDPSessions: 2})
	f := d.udp(named(t, "a"))
	one, two, three := dialUDP(t, f.at), dialUDP(t, f.at), dialUDP(t, f.at)
	ask(t, one, "1")
	ask(t, two, "2")
	ask(t, one, "3")
	ask(t, three, "4")
	if rec := d.record(); rec.Outcome != record.OutcomeLimit || rec.Client != addrOf(two.LocalAddr()) {
		t.Errorf("record %+v", rec)
	}
}
