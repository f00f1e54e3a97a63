package splicetest

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func udpAnswerScenarios() []scenario {
	return []scenario{
		{name: "UDPAnswersThroughFlood", run: udpAnswersThroughFlood},
		{name: "UDPAnswerOfLeavingEndpoint", run: udpAnswerOfLeavingEndpoint},
		{name: "UDPAnswersWhileEndpointsChange", run: udpAnswersWhileEndpointsChange},
	}
}

// askSlowly has so many clients send requests that are answered later.
func askSlowly(t *trial, at netip.AddrPort, n int) (clients []*net.UDPConn) {
	t.Helper()
	for range n {
		c := dialUDP(t, at)
		c.Write([]byte("slow"))
		clients = append(clients, c)
	}
	return clients
}

func wantAnswers(t *trial, clients []*net.UDPConn, want string) {
	t.Helper()
	for _, c := range clients {
		if got := answerTo(t, c); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// udpAnswersThroughFlood: sessions that wait for an answer outlive a flood of others that have theirs, if it does not
// last for longer than they may wait.
func udpAnswersThroughFlood(t *trial) {
	for !answersThroughFlood(t) {
		t.Log("the flood took too long: another one")
	}
}

// answersThroughFlood tells whether the flood was short enough.
func answersThroughFlood(t *trial) bool {
	d := t.start(splice.Options{UDPSessions: 15, Policy: service.Policy{UDPIdle: time.Minute}})
	pod, answer := slowNamed(t, "pod")
	f := d.udp(pod)
	asked := time.Now()
	slow := askSlowly(t, f.at, 4)
	d.sessions(4)
	const most, least = 600, 20
	others := 0
	for end := time.Now().Add(time.Second); others < least || others < most && time.Now().Before(end); others++ {
		c := dialUDP(t, f.at)
		ask(t, c, "x")
		c.Close()
	}
	answer()
	if time.Since(asked) > 3*time.Second {
		return false
	}
	wantAnswers(t, slow, "pod slow")
	return true
}

// udpAnswerOfLeavingEndpoint: an endpoint that leaves the list still answers earlier requests; the next request goes
// elsewhere, at once.
func udpAnswerOfLeavingEndpoint(t *trial) {
	d := t.start(splice.Options{})
	old, answer := slowNamed(t, "old")
	f := d.udp(old)
	clients := askSlowly(t, f.at, 2)
	d.sessions(2)
	f.lead(named(t, "new"))
	t.eventually("the sessions leave", func() bool { return f.Active() == 0 })
	wantAnswer(t, clients[1], "x", "new x")
	answer()
	wantAnswers(t, clients, "old slow")
	for range clients {
		if rec := d.record(); rec.Outcome != record.OutcomeEndpointRemoved || rec.BytesFromEndpoint == 0 {
			t.Errorf("record %+v", rec)
		}
	}
	d.sessions(1)
}

// udpAnswersWhileEndpointsChange: endpoints come and go all the time, while clients ask and endpoints take a moment to
// answer. Every answer arrives that comes while its session may wait.
func udpAnswersWhileEndpointsChange(t *trial) {
	d := t.start(splice.Options{})
	pods := []netip.AddrPort{tardy(t), tardy(t), tardy(t)}
	f := d.udp(pods...)
	var clients sync.WaitGroup
	var lost, asked atomic.Int64
	var done atomic.Bool
	for range 20 {
		clients.Go(func() {
			for !done.Load() {
				if !answered(t, f.at) {
					lost.Add(1)
				}
				asked.Add(1)
			}
		})
	}
	end := time.Now().Add(longest)
	for i := 0; i < 60 || asked.Load() < 200 && time.Now().Before(end); i++ {
		f.lead(pods[i%3], pods[(i+1)%3])
		time.Sleep(20 * time.Millisecond)
	}
	done.Store(true)
	clients.Wait()
	d.stop()
	var tooLate int64
	for len(d.records) > 0 {
		if rec := <-d.records; hasLeft(rec) && rec.BytesFromEndpoint == 0 {
			tooLate++
		}
	}
	if lost.Load() > tooLate || asked.Load() < 200 {
		t.Errorf("%d of %d answers were lost, %d of them came too late", lost.Load(), asked.Load(), tooLate)
	}
}

// answered asks once, as a client of its own. It may run on any goroutine.
func answered(t *trial, at netip.AddrPort) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Error(err)
		return true
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(longest))
	c.Write([]byte("x"))
	_, err = c.Read(make([]byte, 10))
	return err == nil
}
