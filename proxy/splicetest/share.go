package splicetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func shareScenarios() []scenario {
	return []scenario{
		{name: "GreedyClient", run: greedyClient},
		{name: "GreedyClientOfMany", run: greedyClientOfMany},
		{name: "GreedyUDPClient", run: greedyUDPClient},
		{name: "GreedyUDPClientOfMany", run: greedyUDPClientOfMany},
		{name: "SessionsOfAll", run: sessionsOfAll},
		{name: "ListenerWithoutDescriptor", run: listenerWithoutDescriptor},
	}
}

// Clients of these scenarios, by their addresses.
const greedy, modest = "127.0.0.2", "127.0.0.3"

// counting counts reports of one shortage.
func counting(what error, n *atomic.Int64) func(error) {
	return func(err error) {
		if errors.Is(err, what) {
			n.Add(1)
		}
	}
}

// serveAs opens a front of a Service by its name.
func serveAs(d *dataPath, name string, protocol inet.Protocol, endpoint netip.AddrPort) netip.AddrPort {
	d.t.Helper()
	return d.serve(serving{name: name, protocol: protocol, endpoints: []netip.AddrPort{endpoint}}).at
}

// served has a client at an address ask by TCP. The connection stays open where there was an answer.
func (t *trial) served(from string, to netip.AddrPort) bool {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: longest}
	c, err := dialer.Dial("tcp", to.String())
	if isReset(err) {
		return false
	}
	t.must(err)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(longest))
	c.Write([]byte("x"))
	_, err = io.ReadFull(c, make([]byte, 1))
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("a client waits")
	}
	return err == nil
}

// greedyClient: one client takes all the connections it can get. It is the one that is refused, and no other waits.
func greedyClient(t *trial) {
	const refusals = 100
	var reports atomic.Int64
	d := t.start(splice.Options{
		Account: quota.NewAccount(quota.Budget{Descriptors: 1200}), Warn: counting(quota.ErrDescriptors, &reports),
	})
	pod := echoServer(t)
	a, b := serveAs(d, "a", inet.TCP, pod), serveAs(d, "b", inet.TCP, pod)
	served := 0
	for refused := 0; refused < refusals; {
		if t.served(greedy, a) {
			served++
		} else {
			refused++
		}
	}
	if served < 400 {
		t.Errorf("%d connections were served before one was refused", served)
	}
	if rec := d.record(); rec.Outcome != record.OutcomeResources || rec.Client.Addr().String() != greedy {
		t.Errorf("record %+v", rec)
	}
	if reports.Load() != refusals {
		t.Errorf("%d refused, %d reported", refusals, reports.Load())
	}
	for i := range 10 {
		if !t.served(modest, a) || !t.served(modest, b) || !t.served(greedy, b) {
			t.Fatalf("another was refused, at its connection %d", i)
		}
	}
}

// greedyClientOfMany: one client takes all the connections that it can get of many Services. Others are served there,
// and so is a new Service.
func greedyClientOfMany(t *trial) {
	const services = 30
	var last atomic.Pointer[quota.ShareError]
	d := t.start(splice.Options{
		Account: quota.NewAccount(quota.Budget{Descriptors: 1200}),
		Warn: func(err error) {
			if refused := (*quota.ShareError)(nil); errors.As(err, &refused) {
				last.Store(refused)
			}
		},
	})
	pod := echoServer(t)
	var all []netip.AddrPort
	for i := range services {
		all = append(all, serveAs(d, fmt.Sprint("service-", i), inet.TCP, pod))
		for t.served(greedy, all[i]) {
		}
	}
	if refused := last.Load(); refused == nil || refused.Who != "client "+greedy {
		t.Errorf("refused by %v", refused)
	}
	all = append(all, serveAs(d, "new", inet.TCP, pod))
	for i, at := range all {
		if !t.served(modest, at) {
			t.Fatalf("another client is refused at Service %d", i)
		}
	}
}

// greedyUDPClient: one UDP client opens sessions without end. Those that end for it are its own.
func greedyUDPClient(t *trial) {
	needSource(t, greedy)
	d := t.start(splice.Options{UDPSessions: 200, Account: quota.NewAccount(quota.Budget{Sessions: 300})})
	pod := named(t, "pod")
	a, b := serveAs(d, "a", inet.UDP, pod), serveAs(d, "b", inet.UDP, pod)
	var modestConns []*net.UDPConn
	for range 3 {
		modestConns = append(modestConns, dialUDPFrom(t, modest, a), dialUDPFrom(t, modest, b))
	}
	for _, c := range modestConns {
		ask(t, c, "before")
	}
	for range 1000 {
		ask(t, dialUDPFrom(t, greedy, a), "x")
	}
	for range 700 {
		rec := d.record()
		if rec.Outcome != record.OutcomeLimit || rec.Client.Addr().String() != greedy {
			t.Fatalf("record %+v", rec)
		}
	}
	for _, c := range modestConns {
		ask(t, c, "after")
	}
	if n := d.Stats().Sessions; n > 300 {
		t.Errorf("%d sessions", n)
	}
}

// greedyUDPClientOfMany: one UDP client opens sessions with many Services. Others keep theirs, and get new ones.
func greedyUDPClientOfMany(t *trial) {
	needSource(t, greedy)
	const services, each = 30, 40
	d := t.start(splice.Options{UDPSessions: 200, Account: quota.NewAccount(quota.Budget{Sessions: 300})})
	pod := named(t, "pod")
	var all []netip.AddrPort
	var modestConns []*net.UDPConn
	for i := range services {
		all = append(all, serveAs(d, fmt.Sprint("service-", i), inet.UDP, pod))
		modestConns = append(modestConns, dialUDPFrom(t, modest, all[i]))
		ask(t, modestConns[i], "before")
	}
	for i := range each * services {
		c := dialUDPFrom(t, greedy, all[i%services])
		c.Write([]byte("x")) // which may be dropped
		answersWithin(c, 0)
		c.Close()
	}
	for i := range services {
		for _, c := range []*net.UDPConn{modestConns[i], dialUDPFrom(t, modest, all[i])} {
			// The pod, which has many questions to answer, may lose one.
			t.eventually("another client is served", func() bool { return answersWithin(c, time.Second) })
		}
	}
	d.stop()
	for len(d.records) > 0 {
		rec := d.record()
		lost := rec.Outcome == record.OutcomeLimit || rec.Outcome == record.OutcomeResources
		if lost && rec.Client.Addr().String() == modest {
			t.Errorf("a session of another client was evicted, or refused: %+v", rec)
		}
	}
}

// sessionsOfAll: all service ports together have no more sessions than the account allows, and each still serves.
func sessionsOfAll(t *trial) {
	var reports atomic.Int64
	d := t.start(splice.Options{
		Account: quota.NewAccount(quota.Budget{Sessions: 300}), Warn: counting(quota.ErrSessions, &reports),
	})
	pod := named(t, "pod")
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		at := serveAs(d, name, inet.UDP, pod)
		for range 300 {
			c := dialUDP(t, at)
			t.eventually("a client is served", func() bool { return answersWithin(c, time.Second) })
			c.Close()
		}
		if n := d.Stats().Sessions; n > 300 {
			t.Fatalf("%d sessions", n)
		}
	}
	if reports.Load() == 0 {
		t.Error("the shortage was not reported")
	}
}

// answersWithin sends one datagram. Its session is refused while another Service has still to end some of its own.
func answersWithin(c *net.UDPConn, d time.Duration) bool {
	c.Write([]byte("x"))
	c.SetReadDeadline(time.Now().Add(d))
	_, err := c.Read(make([]byte, 10))
	return err == nil
}

// listenerWithoutDescriptor: a listener for which there is no descriptor is an error that says so, and all is given
// back in the end.
func listenerWithoutDescriptor(t *trial) {
	own := t.start(splice.Options{}).Stats().Descriptors                 // of the engine itself
	account := quota.NewAccount(quota.Budget{Descriptors: int(own) + 2}) // a namespace never has all of them
	d := t.start(splice.Options{Account: account})
	for _, protocol := range []inet.Protocol{inet.TCP, inet.UDP} {
		f := d.open(protocol, loopback)
		if err := f.Listen(netip.MustParseAddrPort(loopback + ":0")); !errors.Is(err, quota.ErrDescriptors) {
			t.Errorf("got %v", err)
		}
		f.Close()
		t.eventually("descriptors are given back", func() bool { return d.Stats().Descriptors == own })
	}
	d.stop()
	if n := d.Stats().Descriptors; n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}
