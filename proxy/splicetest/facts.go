package splicetest

import (
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func factScenarios() []scenario {
	return []scenario{
		{name: "LiveStates", run: liveStates},
		{name: "LiveLastMoved", run: liveLastMoved},
		{name: "ClientPods", run: clientPods},
	}
}

// liveOf returns the one open connection.
func liveOf(d *dataPath) record.Live {
	if all := d.Snapshot(); len(all) == 1 {
		return all[0]
	}
	return record.Live{}
}

// liveStates: a connection is shown in each state that it comes to.
func liveStates(t *trial) {
	d := t.start(timeouts(20_000, 20_000))
	f := d.tcp(t.refusing())
	c := dialTCP(t, f.at)
	awaitState := func(want record.ConnState, attempts int) {
		t.Helper()
		t.eventually(string(want), func() bool {
			l := liveOf(d)
			reached := want == record.StateOpen || want == record.StateHalfClosed
			return l.State == want && l.Attempts >= attempts && l.Proxy.IsValid() == reached
		})
	}
	awaitState(record.StateWaiting, 2)
	f.lead(echoServer(t))
	awaitState(record.StateOpen, 3)
	exchange(t, c)
	idle := d.tcp(idleServer(t))
	wantEcho(t, c, "x")
	d.record()
	dialing := dialTCP(t, d.tcp(silent(t)).at)
	awaitState(record.StateDialing, 1)
	awaitReader()
	reset(dialing)
	d.record()
	half := dialTCP(t, idle.at)
	half.CloseWrite()
	awaitState(record.StateHalfClosed, 1)
}

// liveLastMoved: it is shown when bytes last moved, and bytes of either side do.
func liveLastMoved(t *trial) {
	const apart = 50 * time.Millisecond
	d := t.start(splice.Options{})
	word := make(chan string)
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		go io.Copy(io.Discard, c)
		for w := range word {
			c.Write([]byte(w))
		}
	}))
	defer close(word)
	c := dialTCP(t, f.at)
	t.eventually("the connection is open", func() bool { return liveOf(d).State == record.StateOpen })
	last := liveOf(d).LastMoved
	moves := func(what string, move func()) {
		t.Helper()
		time.Sleep(apart)
		before := time.Now()
		move()
		t.eventually(what, func() bool { return liveOf(d).LastMoved.After(last) })
		if last = liveOf(d).LastMoved; last.Before(before.Add(-apart/2)) || last.After(time.Now()) {
			t.Errorf("%s at %v, shown as %v", what, before, last)
		}
	}
	moves("bytes of the client", func() { c.Write([]byte("x")) })
	moves("bytes of the endpoint", func() { word <- "y" })
}

// clientPods: a client that is a pod is named in the live table and in the record, and another is not.
func clientPods(t *trial) {
	pod := service.Workload{Pod: "shop/client", Node: "node-a", Zone: "zone-1"}
	var unknown atomic.Bool
	d := t.start(splice.Options{Policy: shortUDPIdle, WhoIs: func(a netip.Addr) (service.Workload, bool) {
		if a != netip.MustParseAddr(loopback) {
			t.Errorf("asked who %s is", a)
		}
		return pod, !unknown.Load()
	}})
	f, u := d.tcp(echoServer(t)), d.udp(echoDatagrams(t, loopback))
	c := dialTCP(t, f.at)
	exchange(t, c)
	wantWorkload(t, "live", pod, liveOf(d).ClientPod, liveOf(d).ClientNode, liveOf(d).ClientZone)
	wantEcho(t, c, "")
	rec := d.record()
	wantWorkload(t, "record", pod, rec.ClientPod, rec.ClientNode, rec.ClientZone)
	ask(t, dialUDP(t, u.at), "question")
	rec = d.record()
	wantWorkload(t, "record of a session", pod, rec.ClientPod, rec.ClientNode, rec.ClientZone)
	unknown.Store(true)
	wantEcho(t, dialTCP(t, f.at), "")
	rec = d.record()
	wantWorkload(t, "record of another client", service.Workload{}, rec.ClientPod, rec.ClientNode, rec.ClientZone)
}

func wantWorkload(t testing.TB, of string, want service.Workload, pod, node, zone string) {
	t.Helper()
	if got := (service.Workload{Pod: pod, Node: node, Zone: zone}); got != want {
		t.Errorf("%s: client %+v, want %+v", of, got, want)
	}
}
