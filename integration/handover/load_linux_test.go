package handover

import (
	"flag"
	"fmt"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/load"
	"github.com/portald/portald/proxy/adminsocket"
)

// The size of the tests under load.
var (
	full = flag.Bool("full", false, "the tests under load in full: 5,000 connections, 3,000 new ones a second, "+
		"and bounds for pauses")
	restarts = flag.Int("restarts", 0, "how often portald is restarted, or killed; 0: 2, in full 20")
	each     = flag.Int("each", 0, "connections of each kind that stay open; 0: 30, in full 1,000")
	rate     = flag.Int("rate", 0, "new connections a second; 0: 100, in full 3,000")
	sessions = flag.Int("sessions", 0, "UDP sessions; 0: 20, in full 100")
	every    = flag.Duration("every", 50*time.Millisecond, "from one request of a connection that asks to the next")
)

type size struct {
	restarts, each, rate, sessions int
	quiet                          time.Duration
}

func sizes() size {
	s := size{restarts: 2, each: 30, rate: 100, sessions: 20, quiet: time.Second}
	if *full {
		s = size{restarts: 20, each: 1000, rate: 3000, sessions: 100, quiet: 20 * time.Second}
	}
	for _, o := range []struct{ to, flag *int }{
		{&s.restarts, restarts}, {&s.each, each}, {&s.rate, rate}, {&s.sessions, sessions},
	} {
		if *o.flag > 0 {
			*o.to = *o.flag
		}
	}
	return s
}

// Spells of the client.
const (
	quiet   = "quiet"
	restart = "restart"
	crash   = "crash"
	rest    = "rest"
	ending  = "ending"
)

// loaded is a node whose Service has connections of all kinds.
type loaded struct {
	*bed.Bed
	size
	servers []*program
	client  *program
	daemon  *bed.Daemon // the last one
}

// underLoad starts portald and puts load on it. It returns after the quiet spell.
func underLoad(b *bed.Bed, args ...string) *loaded {
	b.Helper()
	l := &loaded{Bed: b, size: sizes()}
	for _, s := range [][2]string{
		{"netfilter/nf_conntrack_tcp_timeout_time_wait", "1"},                          // else the table fills up
		{"ipv4/tcp_rmem", "4096 131072 131072"}, {"ipv4/tcp_wmem", "4096 16384 65536"}, // else slow readers take 10 GB
	} {
		b.Must(b.Node.Sysctl(s[0], s[1]))
	}
	for _, pod := range []int{0, 1, 2} {
		l.servers = append(l.servers, run(b, b.Net.Pod(pod), "answer", fmt.Sprintf("-at=[::]:%d", bed.PodPort)))
	}
	l.daemon = b.Start(b.Cart(0, 1, 2), append(args, "--log-level=info")...)
	l.client = run(b, b.Client, "streams", "-to="+bed.HostPort(bed.IP4, 80)+","+bed.HostPort(bed.IP6, 80),
		fmt.Sprint("-every=", *every), fmt.Sprint("-each=", l.each), fmt.Sprint("-rate=", l.rate),
		fmt.Sprint("-sessions=", l.sessions))
	l.client.says(nil)
	l.client.tell(quiet)
	time.Sleep(l.quiet)
	return l
}

// lateTime is after how long showLate shows what should have ended.
const lateTime = 15 * time.Second

// showLate logs what portald and the kernel know of connections that are open although both ends have ended them.
func (l *loaded) showLate() {
	all, err := l.daemon.Admin().Connections(l.Context(), adminsocket.ConnectionQuery{Protocols: []string{"tcp"}})
	if err != nil {
		l.Logf("late connections: %v", err)
		return
	}
	for _, c := range all[:min(len(all), 5)] {
		of := fmt.Sprintf(":%d", c.Client.Port())
		sockets, _ := l.Try(l.Node, "ss", "-tinmoe", "( dport = "+of+" )")
		endpoint, _ := l.Try(l.Node, "ss", "-tinmoe", fmt.Sprintf("( sport = :%d )", c.Proxy.Port()))
		l.Logf("late: %+v\nto the client: %s\nto the endpoint: %s", c, sockets, endpoint)
	}
}

// end ends all connections and the last daemon, and returns what both ends saw.
func (l *loaded) end() (r *load.StreamsResult, there map[uint32]load.StreamEnd) {
	l.Helper()
	l.client.tell(ending)
	late := time.AfterFunc(lateTime, l.showLate)
	defer late.Stop()
	for _, s := range l.servers {
		s.tell("stop")
	}
	l.client.tell("stop")
	r, there = &load.StreamsResult{}, map[uint32]load.StreamEnd{}
	l.client.says(r)
	for _, s := range l.servers {
		_ = s.in.Close()
		var some []load.StreamEnd
		s.says(&some)
		for _, e := range some {
			there[e.ID] = e
		}
	}
	if code := l.daemon.Stop(); code != 0 {
		l.Errorf("the last portald ended with code %d", code)
	}
	return r, there
}
