package splicetest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func tcpInfoScenarios() []scenario {
	return []scenario{
		{name: "RecordHasTCPInfo", run: recordHasTCPInfo, needs: TCPInfo},
		{name: "RecordWithoutTCPInfo", run: recordWithoutTCPInfo},
		{name: "RecordOfNoEndpointHasTCPInfo", run: recordOfNoEndpointHasTCPInfo, needs: TCPInfo},
		{name: "LiveTCPInfo", run: liveTCPInfo, needs: TCPInfo},
		{name: "LiveTCPInfoWithoutTime", run: liveTCPInfoWithoutTime},
		{name: "LiveTCPInfoAfterTheEnd", run: liveTCPInfoAfterTheEnd},
	}
}

var withTCPInfo = splice.Options{TCPInfo: true}

// recordHasTCPInfo: the record has what the kernel knew of both sockets, also of those that were reset.
func recordHasTCPInfo(t *trial) {
	d := t.start(withTCPInfo)
	f := d.tcp(echoServer(t))
	c := dialTCP(t, f.at)
	exchange(t, c)
	wantEcho(t, c, "")
	rec := d.record()
	wantMeasured(t, "client", rec.ClientTCP)
	wantMeasured(t, "endpoint", rec.EndpointTCP)
	c = dialTCP(t, f.at)
	exchange(t, c)
	reset(c)
	rec = d.record()
	if rec.Outcome != record.OutcomeClientReset {
		t.Errorf("record %+v", rec)
	}
	wantMeasured(t, "client that has reset", rec.ClientTCP)
	wantMeasured(t, "its endpoint", rec.EndpointTCP)
}

// wantMeasured expects figures that are true of any socket over which bytes went both ways on one host. Round trips of
// some microseconds may have no variance.
func wantMeasured(t testing.TB, of string, i record.TCPInfo) {
	t.Helper()
	if !i.Known || i.RTT <= 0 || max(i.RTT, i.RTTVar) > time.Second || i.DeliveryRate == 0 || i.Retransmits > 2 {
		t.Errorf("%s: %+v", of, i)
	}
}

// recordWithoutTCPInfo: the kernel is not asked unless records are to have it.
func recordWithoutTCPInfo(t *trial) {
	d := t.start(splice.Options{})
	wantEcho(t, dialTCP(t, d.tcp(echoServer(t)).at), "x")
	if rec := d.record(); rec.ClientTCP != (record.TCPInfo{}) || rec.EndpointTCP != (record.TCPInfo{}) {
		t.Errorf("record %+v", rec)
	}
}

// recordOfNoEndpointHasTCPInfo: the client's, and none of an endpoint that was not reached.
func recordOfNoEndpointHasTCPInfo(t *trial) {
	d := t.start(withTCPInfo)
	wantReset(t, d.tcp().at)
	rec := d.record()
	if !rec.ClientTCP.Known || rec.ClientTCP.RTT <= 0 || rec.EndpointTCP.Known {
		t.Errorf("client %+v, endpoint %+v", rec.ClientTCP, rec.EndpointTCP)
	}
}

// liveTCPInfo: each connection that is open is shown with what the kernel knows of it, more of them than are asked for
// at a time, and UDP sessions without.
func liveTCPInfo(t *trial) {
	const conns = 600
	d := t.start(splice.Options{})
	f, u := d.tcp(echoServer(t)), d.udp(echoDatagrams(t, loopback))
	for range conns {
		exchange(t, dialTCP(t, f.at))
	}
	ask(t, dialUDP(t, u.at), "question")
	dialTCP(t, d.tcp(silent(t)).at)
	t.eventually("all are open", func() bool { return len(d.Snapshot()) == conns+2 })
	all := d.Snapshot()
	d.ReadTCPInfo(t.Context(), all)
	for _, l := range all {
		switch {
		case l.Service == u.Name():
			if l.ClientTCP.Known || l.EndpointTCP.Known {
				t.Errorf("UDP session %+v", l)
			}
		case l.State == record.StateDialing:
			if !l.ClientTCP.Known || l.EndpointTCP.Known {
				t.Errorf("without an endpoint: %+v", l)
			}
		default:
			wantMeasured(t, "client", l.ClientTCP)
			wantMeasured(t, "endpoint", l.EndpointTCP)
		}
	}
}

// liveTCPInfoWithoutTime: who has no time goes without what the kernel knows.
func liveTCPInfoWithoutTime(t *trial) {
	d := t.start(splice.Options{})
	exchange(t, dialTCP(t, d.tcp(echoServer(t)).at))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	all := d.Snapshot()
	if d.ReadTCPInfo(over, all); len(all) != 1 || all[0].ClientTCP.Known {
		t.Errorf("%+v", all)
	}
}

// liveTCPInfoAfterTheEnd: what has ended meanwhile is left as it is, and so is all of it when the engine has.
func liveTCPInfoAfterTheEnd(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(echoServer(t))
	var all []record.Live
	var conns []net.Conn
	for range 2 {
		c := dialTCP(t, f.at)
		exchange(t, c)
		conns = append(conns, c)
	}
	all = d.Snapshot()
	conns[0].Close()
	ended := d.record().ID
	d.ReadTCPInfo(t.Context(), all)
	for _, l := range all {
		if known := l.ClientTCP.Known; known != (l.ID != ended && t.engine.Can&TCPInfo != 0) {
			t.Errorf("known %v of %+v; %d has ended", known, l, ended)
		}
	}
	d.stop()
	within, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	d.ReadTCPInfo(within, all)
	if within.Err() != nil {
		t.Error("it waits for an engine that has ended")
	}
}
