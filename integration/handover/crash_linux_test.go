package handover

import (
	"bytes"
	crand "crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/load"
	"github.com/portald/portald/proxy/adminsocket"
)

// keeper starts portald keep where the next daemon of the bed finds it.
func keeper(b *bed.Bed) (k *bed.Daemon, socket string) {
	b.Helper()
	socket = filepath.Join(b.ShortDir(), "keep.sock")
	k = b.Exec(b.Line("keep", "--socket", socket)...)
	b.Eventually("the keeper", func() bool { return strings.Contains(k.Log.String(), "keeps at") })
	return k, socket
}

// awaitKept waits until the keeper has so many connections of a daemon.
func awaitKept(d *bed.Daemon, n int) {
	d.Helper()
	d.Eventually("the keeper to have all", func() bool {
		_, body, err := d.Get("127.0.0.1:10249", "/metrics") // which may listen only after /healthz
		return err == nil && d.MetricIn(body, "portald_keeper_connected") == 1 &&
			d.MetricIn(body, `portald_resource_used{resource="kept_connections"}`) == float64(n)
	})
}

// kill kills a daemon, and starts the next.
func kill(d *bed.Daemon) *bed.Daemon {
	d.Helper()
	d.Signal(syscall.SIGKILL)
	<-d.Ended
	return d.Succeed()
}

// A portald that is killed ends no connection that the keeper has: the next one goes on with it.
func TestCrash(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	_, socket := keeper(b)
	first := b.Start(b.Cart(0), "--keep-socket="+socket)
	c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
	awaitKept(first, 1)
	second := kill(first)
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("the open connection: %v\n%s", err, second.Log.String())
	}
	second.WaitReady()
	if n := second.Metric(`portald_inherited_connections_total{fate="live",from="keeper"}`); n != 1 {
		t.Errorf("%v connections are counted, want 1", n)
	}
	awaitKept(second, 1)
	_ = c.CloseWrite()
	if r := second.RecordOf(a); r.Outcome != "ok" || r.BytesFromEndpoint == 0 {
		t.Errorf("recorded as %s", r)
	}
}

// A server that closes and has not read all resets the connection behind its answer. The client has all of that, also
// if it reads only after a crash: of a portald that delivered it, or of one that did not live to learn of the reset.
func TestAnswerBeforeResetOutlivesCrash(t *testing.T) {
	for name, killedFirst := range map[string]bool{"learned of": false, "not learned of": true} {
		t.Run(name, func(t *testing.T) {
			b := bed.New(t)
			answer := make([]byte, 512<<10) // more than the client's buffer, and less than all buffers on the way
			_, _ = crand.Read(answer)
			sent, closes, closed := make(chan *net.TCPConn), make(chan struct{}), make(chan struct{})
			b.Serve(b.Net.Pod(0), bed.PodPort, func(c *net.TCPConn) {
				_, _ = io.ReadFull(c, make([]byte, 1))
				_, _ = c.Write([]byte("!"))
				_, _ = io.ReadFull(c, make([]byte, 1))
				_, _ = c.Write(answer)
				sent <- c
				<-closes
				c.Close()
				close(closed)
			})
			_, socket := keeper(b)
			first := b.Start(b.Cart(0), "--keep-socket="+socket)
			c, err := bed.Dial(bed.AnswerTimeout, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
			b.Must(err)
			defer c.Close()
			_, _ = io.WriteString(c, "?")
			_, _ = io.ReadFull(c, make([]byte, 1))
			b.Eventually("the connection to be kept", func() bool {
				return first.Metric(`portald_resource_used{resource="kept_connections"}`) == 1
			})
			_, _ = io.WriteString(c, "??")
			server := <-sent
			b.Eventually("all to have left the server", func() bool { return bed.Unacknowledged(server) == 0 })
			var second *bed.Daemon
			if killedFirst {
				first.Signal(syscall.SIGKILL)
				<-first.Ended
				close(closes)
				<-closed
				second = first.Succeed()
			} else {
				close(closes)
				b.Eventually("portald to learn of the reset", func() bool {
					all, err := first.Admin().Connections(t.Context(), adminsocket.ConnectionQuery{Protocols: []string{"tcp"}})
					return err == nil && len(all) == 1 && all[0].State == "delivering"
				})
				second = kill(first)
			}
			second.WaitReady()
			_ = c.SetDeadline(time.Now().Add(bed.AnswerTimeout))
			got, err := io.ReadAll(c)
			if !bytes.Equal(got, answer) || !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%d bytes of %d came, or others, and then %v\n%s", len(got), len(answer), err, second.Log.String())
			}
			r := second.RecordOf(bed.Answer{Client: bed.LocalAddr(c)})
			if r.Outcome != "endpoint_reset" || r.BytesFromEndpoint != int64(len(answer)+1) || r.BytesFromClient != 3 {
				t.Errorf("recorded as %s, %d and %d bytes", r, r.BytesFromClient, r.BytesFromEndpoint)
			}
		})
	}
}

// Clients that come while no portald lives wait, also those of a Service that was made after the keeper had all others.
func TestClientsWaitAfterACrash(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	_, socket := keeper(b)
	cart, late := b.Cart(0), b.Simple("late", "10.96.0.77", 0)
	first := b.Start(cart, "--keep-socket="+socket)
	first.Apply(cart.String() + late.String())
	time.Sleep(time.Second) // far more than the keeper is told later
	first.Signal(syscall.SIGKILL)
	<-first.Ended
	answers := make(chan error)
	clients := []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80), bed.HostPort("10.96.0.77", 80)}
	for _, to := range clients {
		go func() {
			a, err := bed.AskWithin(20*time.Second, b.Client, "tcp", to)
			if err == nil && a.Pod != bed.PodName(0) {
				err = fmt.Errorf("%q answers", a.Pod)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", to, err)
			}
			answers <- err
		}()
	}
	select {
	case err := <-answers:
		t.Errorf("a client did not wait: %v", err)
		clients = clients[1:]
	case <-time.After(500 * time.Millisecond):
	}
	second := first.Succeed()
	for range clients {
		if err := <-answers; err != nil {
			t.Errorf("%v\n%s", err, second.Log.String())
		}
	}
	second.WaitReady()
}

var (
	kills = flag.Int("kills", 3, "how often TestCrashes and TestCrashesOfStarts kill portald")
	seed  = flag.Uint64("seed", 0, "of the moments at which TestCrashesOfStarts kills; 0: another each time")
)

// crashed are streams of every kind that go on while portalds are killed.
type crashed struct {
	*bed.Bed
	streams
	d *bed.Daemon // the last one
}

// underKills starts a keeper, portald and the streams, and waits until the keeper has all.
func underKills(t *testing.T) *crashed {
	b := bed.New(t)
	serveEcho(b, 0)
	_, socket := keeper(b)
	c := &crashed{Bed: b, d: b.Start(b.Cart(0), "--keep-socket="+socket)}
	at := bed.HostPort(bed.IP4, 80)
	c.open(b, at, "bulk", 8, c.bulk)
	c.open(b, at, "slow", 6, c.slow)
	c.open(b, at, "asking", 40, c.asks)
	c.open(b, at, "idle", 20, c.idle)
	c.kept()
	return c
}

// kept waits until the keeper has all streams.
func (c *crashed) kept() {
	c.Helper()
	awaitKept(c.d, len(c.all))
}

// end ends the streams, each of which is whole.
func (c *crashed) end() {
	c.Helper()
	for _, s := range c.stop() {
		if wasReset(s.err.Error()) {
			c.Errorf("a stream of kind %s broke: %v", s.kind, s.err)
		} else {
			c.Errorf("a stream of kind %s is corrupt: %v", s.kind, s.err)
		}
	}
}

const carriedOnLine = "of the portald that died go on"

// Killed at any moment, under load of every kind: no byte is missing or there twice, and no connection ends.
func TestCrashes(t *testing.T) {
	c := underKills(t)
	for range *kills {
		time.Sleep(time.Duration(rand.IntN(50_000)) * time.Microsecond)
		c.d = kill(c.d)
		c.d.WaitReady()
		t.Log(lineWith(c.d.Log.String(), carriedOnLine))
		c.kept()
	}
	c.end()
}

// After a crash the next portald is killed too, at any moment of its start, and so is the one after it: whoever of them
// had claimed what the first one left, and however far it had come with it, the next one goes on with each connection.
func TestCrashesOfStarts(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed=%d", *seed)
	moments := rand.New(rand.NewPCG(*seed, 0))
	c := underKills(t)
	start, carry := 500*time.Millisecond, 50*time.Millisecond // how long a start takes, and the last part of it
	for round := range *kills {
		for _, who := range []string{"the one that serves", "its successor", "the one after"} {
			began := time.Now()
			switch {
			case who == "the one that serves":
				time.Sleep(time.Duration(moments.Int64N(int64(50 * time.Millisecond))))
			case moments.IntN(2) == 0: // while it looks at what is left
				within(start, func() bool { return strings.Contains(c.d.Log.String(), "The last portald died") })
				time.Sleep(time.Duration(moments.Int64N(int64(carry))))
			default:
				time.Sleep(time.Duration(moments.Int64N(int64(start))))
			}
			log := c.d.Log.String()
			c.d = kill(c.d)
			t.Logf("round %d: %s is killed after %s", round, who, time.Since(began).Round(time.Microsecond))
			for _, what := range []string{"The last portald died", carriedOnLine, "Connection reset"} {
				if strings.Contains(log, what) {
					t.Log(lineWith(log, what))
				}
			}
		}
		began := time.Now()
		within(time.Minute, func() bool { return strings.Contains(c.d.Log.String(), "The last portald died") })
		claimed := time.Now()
		within(time.Minute, func() bool { return strings.Contains(c.d.Log.String(), carriedOnLine) })
		start, carry = time.Since(began)*5/4, time.Since(claimed)*5/4
		c.d.WaitReady()
		line := lineWith(c.d.Log.String(), carriedOnLine)
		t.Log(line)
		if !strings.Contains(line, fmt.Sprintf("%d connections %s, 0 had ended, 0 are reset", len(c.all), carriedOnLine)) {
			t.Errorf("not all %d go on: %s", len(c.all), line)
		}
		c.kept()
	}
	c.end()
}

// within polls often, since what it waits for is soon over.
func within(limit time.Duration, is func() bool) {
	for end := time.Now().Add(limit); !is() && time.Now().Before(end); {
		time.Sleep(200 * time.Microsecond)
	}
}

// crashPause is the time from one crash under load to the next, in which all connections become two seconds old.
const crashPause = 3 * time.Second

// backTime is how long the next portald may take, from its start, until it serves.
const backTime = time.Second

// Killed under load, again and again: of the connections that were open for two seconds 99 in 100 go on, each with all
// its bytes; the others are reset. New ones wait for the next portald, but for those that were under way.
func TestKilledUnderLoad(t *testing.T) {
	b := bed.New(t)
	_, socket := keeper(b)
	l := underLoad(b, "--keep-socket="+socket)
	time.Sleep(crashPause)
	var lines []string
	for range l.restarts {
		l.client.tell(crash)
		l.daemon.Signal(syscall.SIGKILL)
		<-l.daemon.Ended
		began := time.Now()
		l.daemon = l.daemon.Succeed()
		l.daemon.WaitReady()
		back := time.Since(began)
		l.client.tell(rest)
		lines = append(lines, fmt.Sprintf("back after %s, %s", back.Round(time.Millisecond),
			lineWith(l.daemon.Log.String(), "of the portald that died go on")))
		if back > backTime && *full {
			t.Errorf("the next portald served after %s, want %s", back, backTime)
		}
		time.Sleep(crashPause)
	}
	r, ends := l.end()
	t.Logf("crashes:\n%s", strings.Join(lines, ""))
	show(t, l.size, r)
	checkCount(t, l.size, r, ends)
	broken := checkBroken(t, l.size, r, ends)
	young := -int64(broken) // those are counted too
	for _, s := range r.Totals {
		if s.Refused+s.TimedOut > 0 {
			t.Errorf("%s: %d new connections refused, %d timed out", s.Name, s.Refused, s.TimedOut)
		}
		young += s.Reset + s.Broken
	}
	t.Logf("%d new connections that were under way broke too", young)
	if most := l.restarts * (1 + l.rate/4); young > int64(most) { // what comes in a quarter of a second
		t.Errorf("%d new connections broke, want %d at most", young, most)
	}
}

// checkBroken fails for a connection that is not whole and was not reset, and for more than one in a hundred a crash
// that was.
func checkBroken(t *testing.T, n size, r *load.StreamsResult, there map[uint32]load.StreamEnd) (broken int) {
	t.Helper()
	for _, e := range r.Streams {
		o := there[e.ID]
		if isWhole(e, o) {
			continue
		}
		if broken++; !wasReset(e.Failed) || !wasReset(o.Failed) {
			t.Error(describe(e, o))
		}
	}
	t.Logf("%d of %d connections broke by %d crashes", broken, len(r.Streams), n.restarts)
	if broken > max(1, len(r.Streams)*n.restarts/100) {
		t.Errorf("%d of %d connections broke by %d crashes", broken, len(r.Streams), n.restarts)
	}
	return broken
}

func wasReset(failed string) bool {
	return strings.Contains(failed, "reset") || strings.Contains(failed, "broken pipe")
}

func lineWith(log, what string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, what) {
			return line
		}
	}
	return "no line with " + what
}

// A keeper that dies takes no open connection with it: the next one gets all of it, although nothing happens on the
// node that portald would tell it of.
func TestKeeperDies(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	k, socket := keeper(b)
	first := b.Start(b.Cart(0), "--keep-socket="+socket)
	c, r, _ := b.Open(bed.HostPort(bed.IP4, 80))
	awaitKept(first, 1)
	k.Signal(syscall.SIGKILL)
	<-k.Ended
	b.Eventually("portald to miss its keeper", func() bool {
		return strings.Contains(first.Log.String(), "The keeper is gone")
	})
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("without a keeper: %v", err)
	}
	b.Exec(b.Line("keep", "--socket", socket)...)
	b.Eventually("portald to find the next", func() bool {
		return strings.Contains(first.Log.String(), "Keeper connected again")
	})
	awaitKept(first, 1)
	second := kill(first)
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("after a crash: %v\n%s", err, second.Log.String())
	}
	second.WaitReady()
}

// A keeper that stands still counts as gone within seconds. Once it goes on it gets all again, and the connections it
// had before are not taken for the inheritance of a dead portald.
func TestKeeperStandsStill(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	k, socket := keeper(b)
	first := b.Start(b.Cart(0), "--keep-socket="+socket)
	c, r, _ := b.Open(bed.HostPort(bed.IP4, 80))
	connected := func(want float64) func() bool {
		return func() bool { return first.Metric("portald_keeper_connected") == want }
	}
	has := func() bool {
		return first.Metric("portald_keeper_connected") == 1 &&
			first.Metric(`portald_resource_used{resource="kept_connections"}`) == 1
	}
	b.Eventually("the keeper to have the connection", has)
	k.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { k.Signal(syscall.SIGCONT) })
	began := time.Now()
	b.Eventually("portald to miss its keeper", connected(0))
	t.Logf("missed after %s", time.Since(began).Round(time.Millisecond))
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("without a keeper: %v", err)
	}
	k.Signal(syscall.SIGCONT)
	b.Eventually("portald to find it again", connected(1))
	second := kill(first)
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("after a crash: %v\n%s", err, second.Log.String())
	}
	second.WaitReady()
	line := lineWith(second.Log.String(), carriedOnLine)
	if !strings.Contains(line, "1 connections "+carriedOnLine+", 0 had ended, 0 are reset") {
		t.Error(line)
	}
}

// A daemon without descriptors for a moment gives the keeper its listeners once it has some, and says meanwhile that
// the keeper lacks them: clients that come after a crash wait for the next daemon.
func TestKeeperLacksListenersForAMoment(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	k, socket := keeper(b)
	manifest := b.Cart(0).String()
	const others = 30
	for i := range others {
		manifest += b.Simple(fmt.Sprint("other", i), fmt.Sprintf("10.96.1.%d", 1+i), 0).String()
	}
	first := b.Start(manifest, "--keep-socket="+socket)
	awaitKept(first, 0)
	k.Signal(syscall.SIGKILL)
	<-k.Ended
	first.Eventually("portald to miss its keeper", func() bool {
		return strings.Contains(first.Log.String(), "The keeper is gone")
	})
	give := first.LimitFiles(func(open int) int { return open + 5 })
	b.Exec(b.Line("keep", "--socket", socket)...)
	first.Eventually("portald to have no descriptors for its listeners", func() bool {
		return strings.Contains(first.Log.String(), "Cannot pass listeners to the keeper yet")
	})
	if first.Metric("portald_keeper_connected") != 0 {
		t.Error("the keeper counts as connected, without the listeners")
	}
	give()
	awaitKept(first, 0)
	first.Signal(syscall.SIGKILL)
	<-first.Ended
	var clients []net.Conn
	for i := range others {
		c, err := bed.Dial(bed.AnswerTimeout, b.Client, "tcp", bed.HostPort(fmt.Sprintf("10.96.1.%d", 1+i), 80))
		if err != nil {
			t.Errorf("a client that comes after the crash: %v", err)
			continue
		}
		defer c.Close()
		clients = append(clients, c)
	}
	second := first.Succeed()
	second.WaitReady()
	for _, c := range clients {
		if _, err := bed.AskTCP(c.(*net.TCPConn)); err != nil {
			t.Errorf("a client that came after the crash: %v", err)
		}
	}
}
