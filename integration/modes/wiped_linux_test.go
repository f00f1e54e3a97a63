package modes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// wipe is a command that takes rules of portald away, which serve clients of cart's cluster IP.
type wipe struct {
	mode    bed.Mode
	what    string
	command []string
	refuses bool // what is left refuses clients at a ClusterIP
}

// wipes are those in every mode.
func wipes() (out []wipe) {
	for _, m := range bed.Modes() {
		beside := strings.Contains(m.Name, "IPVS") // the node has the addresses, and refuses without rules
		flush := wipe{m, "everything", strings.Fields("nft flush ruleset"), beside}
		switch {
		case m.Name == "IPVS":
			out = append(out, wipe{m, "virtual servers", strings.Fields("ipvsadm -C"), true},
				wipe{m, "the device", strings.Fields("ip link delete portald-ipvs0"), false})
		case strings.Contains(m.Name, "nftables"):
			out = append(append(out, flush), byNFT(m)...)
		default:
			out = append(append(out, flush), byIPTables(m, "iptables")...)
		}
	}
	if !bed.InVM {
		const legacy = "--iptables-variant=legacy"
		for _, m := range []bed.Mode{
			{Name: "userspace by iptables-legacy", Args: []string{legacy}},
			{Name: "iptables-legacy", Kernel: true, Args: []string{"--proxy-mode=iptables", legacy, bed.PodRanges}},
		} {
			out = append(out, byIPTables(m, "iptables-legacy")...)
		}
	}
	return out
}

func byNFT(m bed.Mode) []wipe {
	set, kind := "redirect-ips", "map"
	if m.Kernel {
		set, kind = "plain-ips", "set"
	}
	return []wipe{
		{m, "the table", strings.Fields("nft delete table ip portald"), false},
		{m, "a chain", strings.Fields("nft flush chain ip portald services"), true},
		{m, "a set", strings.Fields("nft flush " + kind + " ip portald " + set), true},
		{m, "an element",
			strings.Fields("nft delete element ip portald " + set + " { " + bed.IP4 + " . tcp . 80 }"), true},
		{m, "the hooks", []string{"nft", "add table ip portald { flags dormant ; }"}, false},
	}
}

func byIPTables(m bed.Mode, command string) []wipe {
	on := func(args string) []string {
		return append([]string{command, "-w", "-t", "nat"}, strings.Fields(args)...)
	}
	beside := strings.Contains(m.Name, "IPVS") // the node has the addresses, and refuses without rules
	return []wipe{
		{m, "a table", on("-F"), beside},
		{m, "a chain", on("-F PORTALD-SERVICES"), beside},
		{m, "a jump", on("-D PREROUTING -j PORTALD-SERVICES"), beside},
	}
}

// backWithin is the time in which rules have to be back that others took away.
func backWithin() time.Duration { return bed.VMTimeout(2 * time.Second) }

// servedAgain waits until new clients are served again. Each dials for a short while only: the kernel repeats a SYN
// that was lost after a second, which says nothing of when the rules were back.
func servedAgain(b *bed.Bed, to string, wiped time.Time) {
	b.Helper()
	if !bed.Within(3*backWithin(), func() bool {
		_, err := bed.AskWithin(bed.SilenceTimeout, b.Client, "tcp", to)
		return err == nil
	}) {
		b.Error("new clients are not served")
	}
	if took := time.Since(wiped); took > backWithin() {
		b.Errorf("new clients are served after %s, want %s", took, backWithin())
	} else {
		b.Logf("new clients are served after %s", took.Round(time.Millisecond))
	}
}

// backAgain waits until new clients are served, beside others that take CPU time and locks all the while.
func backAgain(b *bed.Bed) {
	b.Helper()
	b.Eventually("portals to come back", func() bool {
		_, err := bed.AskWithin(bed.SilenceTimeout, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		return err == nil
	})
}

// Rules that others take away are back within two seconds, with the default sync period of half a minute. A client that
// dials meanwhile gets through too, unless what is left refuses it.
func TestWipedRulesComeBack(t *testing.T) {
	for _, w := range wipes() {
		t.Run(w.mode.Name+"/"+w.what, func(t *testing.T) {
			b := bed.New(t, "nft", w.command[0])
			b.ServePods(0)
			d := b.Start(b.Cart(0), w.mode.Args...)
			b.ServedBy(bed.IP4, bed.PodName(0))
			to := bed.HostPort(bed.IP4, 80)

			d.Signal(syscall.SIGSTOP) // it could have the rules back before a client sees that they were away
			b.On(b.Node, w.command[0], w.command[1:]...)
			if conn, err := bed.Dial(bed.VMTimeout(20*time.Millisecond), b.Client, "tcp", to); err == nil {
				conn.Close()
				t.Fatal("it took nothing away that clients need")
			}
			wiped := time.Now()
			d.Signal(syscall.SIGCONT)
			meanwhile := make(chan error)
			go func() {
				_, err := bed.Ask(b.Client, "tcp", to)
				meanwhile <- err
			}()
			servedAgain(b, to, wiped)
			if err := <-meanwhile; err != nil && !w.refuses {
				t.Errorf("a client that dialled meanwhile: %v", err)
			}
			if log := d.Log.String(); !strings.Contains(log, "The host's rules were changed by others") {
				t.Error("the log does not tell")
			}
		})
	}
}

// A program that takes rules away ten times a second does not make portald busy, which reports it, and who does it;
// once it stops the rules come back.
func TestNoFight(t *testing.T) {
	for _, w := range []wipe{
		{mode: bed.Modes()[1], command: strings.Fields("nft delete table ip portald")},
		{mode: bed.Modes()[0], command: strings.Fields("iptables -w -t nat -F")},
	} {
		t.Run(w.mode.Name, func(t *testing.T) {
			b := bed.New(t, "nft")
			b.ServePods(0)
			d := b.Start(b.Cart(0), w.mode.Args...)
			b.ServedBy(bed.IP4, bed.PodName(0))
			repairs := func() int { return strings.Count(d.Log.String(), "Applied everything again") }
			used := cpuTime(b, d)
			b.On(b.Node, w.command[0], w.command[1:]...)
			b.Eventually("the first repair", func() bool { return repairs() == 1 })
			one := cpuTime(b, d) - used
			const long = 12 * time.Second
			const most = 6 // repairs in that time, when each waits twice as long as the one before
			unhealthy := false
			used, began := cpuTime(b, d), time.Now()
			for time.Since(began) < long {
				_, _ = b.Try(b.Node, w.command[0], w.command[1:]...) // there may be nothing to take
				code, _, err := b.Get("127.0.0.1:10256", "/healthz")
				unhealthy = unhealthy || err == nil && code == http.StatusServiceUnavailable
				time.Sleep(100 * time.Millisecond)
			}
			more, cost := repairs()-1, cpuTime(b, d)-used
			t.Logf("%s of CPU for one repair, %s for %d more in %s", one, cost, more, time.Since(began).Round(time.Second))
			if more > most {
				t.Errorf("%d repairs in %s", more, long)
			}
			if limit := 2 * most * max(one, 50*time.Millisecond); cost > limit { // to look costs about as much as to repair
				t.Errorf("%s of CPU, want less than %s", cost, limit)
			}
			if !unhealthy {
				t.Error("/healthz was 200 all the time")
			}
			if n := d.Metric("portald_rules_changed_total"); n < 2 {
				t.Errorf("portald_rules_changed_total %v", n)
			}
			if seen := doctorSays(b, d, "rules-changed"); !strings.Contains(seen, w.command[0]) {
				t.Errorf("the doctor does not name %s: %q", w.command[0], seen)
			}
			if log := d.Log.String(); !strings.Contains(log, "seen: "+w.command[0]) {
				t.Errorf("the log does not name %s", w.command[0])
			}
			backAgain(b)
		})
	}
}

// Programs that change rules of their own all the time cost little, are not taken for others that change portald's, and
// do not hide one that does.
func TestOthersInAStorm(t *testing.T) {
	for _, m := range bed.Modes() {
		t.Run(m.Name, func(t *testing.T) {
			b := bed.New(t, "nft")
			b.ServePods(0)
			d := b.Start(b.Cart(0), m.Args...)
			b.ServedBy(bed.IP4, bed.PodName(0))
			b.Eventually("portald to have nothing to do", func() bool {
				used := cpuTime(b, d)
				time.Sleep(300 * time.Millisecond)
				return cpuTime(b, d)-used <= 10*time.Millisecond
			})
			b.On(b.Node, "nft", "add table ip others { chain c { type filter hook input priority 5 ; } ; "+
				"set s { type ipv4_addr ; } ; }")
			b.On(b.Node, "iptables", "-w", "-N", "OTHERS")
			ctx, stop := context.WithCancel(t.Context())
			var storm sync.WaitGroup
			var times atomic.Int64
			for _, command := range []string{
				"while :; do nft 'add element ip others s { 192.0.2.9 }'; nft 'flush set ip others s'; echo; done",
				"while :; do iptables -w -A OTHERS -j RETURN; iptables -w -F OTHERS; echo; done",
			} {
				cmd := b.Node.Command(ctx, "sh", "-c", command)
				cmd.Stdout = counts{&times}
				b.Must(cmd.Start())
				storm.Go(func() { _ = cmd.Wait() }) // it is killed
			}
			defer func() { stop(); storm.Wait() }()
			before := times.Load()
			used, began := cpuTime(b, d), time.Now()
			b.Eventually("a storm", func() bool { return times.Load() >= before+200 || time.Since(began) > 6*time.Second })
			took := time.Since(began)
			share := float64(cpuTime(b, d)-used) / float64(took)
			t.Logf("%.1f %% of a CPU beside %.0f changes a second", 100*share, 2*float64(times.Load()-before)/took.Seconds())
			if share > 0.1 {
				t.Errorf("%.1f %% of a CPU", 100*share)
			}
			if log := d.Log.String(); strings.Contains(log, "changed by others") {
				t.Error("others that change their own rules are taken for some that change ours")
			}
			command := strings.Fields("iptables -w -t nat -F")
			if strings.Contains(m.Name, "nftables") {
				command = strings.Fields("nft delete table ip portald")
			}
			b.On(b.Node, command[0], command[1:]...) // waits for those of the storm to let go of the lock
			backAgain(b)
		})
	}
}

// counts counts lines.
type counts struct{ n *atomic.Int64 }

func (c counts) Write(p []byte) (int, error) {
	c.n.Add(int64(bytes.Count(p, []byte("\n"))))
	return len(p), nil
}

// cpuTime returns the CPU time of a daemon and of the commands that it ran.
func cpuTime(b *bed.Bed, d *bed.Daemon) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.Cmd.Process.Pid))
	b.Must(err)
	_, rest, _ := strings.Cut(string(text), ") ")
	fields, ticks := strings.Fields(rest), 0
	for _, f := range fields[11:15] { // utime, stime, and those of children
		n, err := strconv.Atoi(f)
		b.Must(err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// doctorSays returns the finding of one of the doctor's checks.
func doctorSays(b *bed.Bed, d *bed.Daemon, check string) (seen string) {
	b.Helper()
	text, _ := b.Try(b.Node, bed.Portald, "doctor", "-o", "json", "--socket", d.Socket) // it fails with findings
	var r struct {
		Findings []struct{ Check, Seen string }
	}
	b.Must(json.Unmarshal([]byte(text), &r))
	for _, x := range r.Findings {
		if x.Check == check {
			seen += x.Seen + "\n"
		}
	}
	return seen
}
