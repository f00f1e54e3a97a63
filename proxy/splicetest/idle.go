package splicetest

import (
	"io"
	"net"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func idleScenarios() []scenario {
	return []scenario{
		{name: "IdleTimeout", run: idleTimeout},
		{name: "UDPIdleChangesWithDefaults", run: udpIdleChangesWithDefaults},
		{name: "UDPIdleChangesWithService", run: udpIdleChangesWithService},
		{name: "UDPIdleShortened", run: udpIdleShortened},
	}
}

// silence is a third of what ends a connection here: a busy machine may take the rest.
const silence = 2 * time.Second

// idleTimeout: an open connection ends after silence, and bytes put that off.
func idleTimeout(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{Idle: 3 * silence}})
	c := dialTCP(t, d.tcp(echoServer(t)).at)
	for range 4 {
		time.Sleep(silence)
		exchange(t, c)
	}
	c.Read(make([]byte, 1))
	rec := d.record()
	if rec.Outcome != record.OutcomeIdle || rec.CloseType != record.Timeout || rec.BytesFromEndpoint != 4 {
		t.Errorf("record %+v", rec)
	}
}

// endsIdle tells whether a connection is ended for its silence within some time.
func endsIdle(c net.Conn, within time.Duration) bool {
	c.SetReadDeadline(time.Now().Add(within))
	_, err := io.ReadFull(c, make([]byte, 1))
	return isReset(err)
}

// Sessions under shortUDPIdle still have their answers on a busy machine; quickUDPIdle is for those that need none.
var (
	shortUDPIdle = service.Policy{UDPIdle: time.Second}
	quickUDPIdle = service.Policy{UDPIdle: 50 * time.Millisecond}
)

// udpIdleChangesWithDefaults: the present idle timeout of UDP applies to open sessions too.
func udpIdleChangesWithDefaults(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{UDPIdle: service.Never}})
	udpIdleChanges(t, d, d.udp(named(t, "a")), func(*front) { d.SetPolicy(quickUDPIdle) })
}

func udpIdleChangesWithService(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{UDPIdle: service.Never}})
	udpIdleChanges(t, d, d.udp(named(t, "a")), func(f *front) { f.under(quickUDPIdle) })
}

func udpIdleChanges(t *trial, d *dataPath, f *front, shorten func(*front)) {
	ask(t, dialUDP(t, f.at), "x")
	d.noRecord(200 * time.Millisecond)
	shorten(f)
	if rec := d.record(); rec.Outcome != record.OutcomeOK || rec.CloseType != record.Timeout || rec.Duration > longest {
		t.Errorf("record %+v", rec)
	}
	f.under(quickUDPIdle)
	f.under(service.Policy{UDPIdle: service.Never})
	ask(t, dialUDP(t, f.at), "y")
	d.noRecord(200 * time.Millisecond)
}

// udpIdleShortened: a shorter idle timeout applies to the next session too when the last one under the longer has
// ended.
func udpIdleShortened(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{UDPIdle: time.Hour}})
	a, b := named(t, "a"), named(t, "b")
	f := d.udp(a, b)
	ask(t, dialUDP(t, f.at), "x")
	f.know(b) // which ends the session
	d.record()
	d.SetPolicy(quickUDPIdle)
	dialUDP(t, f.at).Write([]byte("y"))
	if rec := d.record(); rec.Outcome != record.OutcomeOK || rec.CloseType != record.Timeout {
		t.Errorf("record %+v", rec)
	}
}
