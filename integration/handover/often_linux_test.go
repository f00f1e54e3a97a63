package handover

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

var often = flag.Int("often", 12, "how often TestNothingIsLeftOver restarts portald in each way")

// settledAfter is after how many restarts what is counted no longer grows: each loop and pool has been used by then.
const settledAfter = 4

// Restarts in a row, under a small steady load: no connection fails, and the node, the daemon and the keeper have no
// more of anything than after the first ones.
func TestNothingIsLeftOver(t *testing.T) {
	for _, c := range []struct {
		name string
		next func(*bed.Daemon) *bed.Daemon
		ends bool // a connection that is under way may
	}{
		{"taken over", func(d *bed.Daemon) *bed.Daemon {
			next := d.Succeed()
			if code := d.Exit(); code != 0 {
				t.Errorf("a predecessor ended with code %d", code)
			}
			return next
		}, false},
		{"killed", kill, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := underSmallLoad(t, c.ends)
			began := time.Now()
			var before remnants
			for n := range max(*often, 2*settledAfter) {
				if n == settledAfter {
					before = l.count()
					t.Logf("after %d: %s", n, before)
				}
				l.d = c.next(l.d)
				l.d.WaitReady()
				if c.ends {
					l.kept()
				}
				if n%100 == 99 {
					t.Logf("after %d in %s, %d new connections: %s", n+1, time.Since(began).Round(time.Second), l.asked.Load(),
						l.count())
				}
			}
			l.nothingBeside(before)
			t.Logf("%d restarts in %s, %d new connections, %d were under way and ended", *often,
				time.Since(began).Round(time.Second), l.asked.Load(), l.ended.Load())
			if most := int64(*often * askers); l.ended.Load() > most {
				t.Errorf("%d connections ended, want %d at most", l.ended.Load(), most)
			}
			l.unload()
		})
	}
}

// smallLoad is a node with connections that stay, and new ones.
type smallLoad struct {
	*crashed
	keeper *bed.Daemon
	unload func()

	mayEnd       bool         // a connection that is under way
	asking       sync.RWMutex // held by who is not to find a new connection
	asked, ended atomic.Int64
}

// askers is how many clients open one connection after the other.
const askers = 3

func underSmallLoad(t *testing.T, mayEnd bool) *smallLoad {
	b := bed.New(t)
	b.Must(b.Node.Sysctl("netfilter/nf_conntrack_tcp_timeout_time_wait", "1")) // else the table fills up
	serveEcho(b, 0)
	k, socket := keeper(b)
	l := &smallLoad{keeper: k, mayEnd: mayEnd, crashed: &crashed{Bed: b, d: b.Start(b.Cart(0), "--keep-socket="+socket)}}
	at := bed.HostPort(bed.IP4, 80)
	l.open(b, at, "asking", 6, l.asks)
	l.open(b, at, "idle", 6, l.idle)
	for _, s := range l.all {
		b.Must(s.c.SetDeadline(time.Now().Add(2 * time.Hour))) // a thousand restarts take longer than open allows
	}
	l.kept()
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range askers {
		all.Go(func() {
			for salt := byte(0); ctx.Err() == nil; salt++ {
				l.ask(salt)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	l.unload = sync.OnceFunc(func() {
		stop()
		all.Wait()
		l.end()
	})
	t.Cleanup(l.unload)
	return l
}

// ask opens a connection, and asks once.
func (l *smallLoad) ask(salt byte) {
	l.asking.RLock()
	defer l.asking.RUnlock()
	c, err := bed.Dial(bed.AnswerTimeout, l.Client, "tcp", bed.HostPort(bed.IP4, 80))
	if err == nil {
		err = l.asksOnce(&stream{c: c}, salt)
		_ = c.Close()
	}
	switch {
	case err == nil:
		l.asked.Add(1)
	case l.mayEnd && errors.Is(err, syscall.ECONNRESET):
		l.ended.Add(1)
	default:
		l.Errorf("a new connection: %v", err)
	}
}

// remnants are what restarts may leave behind.
type remnants struct {
	descriptors, goroutines, memory float64 // of the daemon
	keeperDescriptors, keeperMemory float64
	flows                           int      // of TCP, that the kernel tracks and neither side has ended
	sockets                         int      // that listen in the node's namespace
	rules                           string   // and routes, and addresses
	files                           []string // that portald may have made
}

func (r remnants) String() string {
	return fmt.Sprintf("%.0f descriptors, %.0f goroutines, %.0f KiB; of the keeper %.0f and %.0f KiB; %d flows, %d "+
		"sockets, %d bytes of rules, files %s", r.descriptors, r.goroutines, r.memory/1024, r.keeperDescriptors,
		r.keeperMemory/1024, r.flows, r.sockets, len(r.rules), strings.Join(r.files, " "))
}

// count counts, while no new connection is open.
func (l *smallLoad) count() (r remnants) {
	l.Helper()
	l.asking.Lock()
	defer l.asking.Unlock()
	l.kept()
	body := l.d.Metrics()
	r.descriptors, r.goroutines = l.d.MetricIn(body, "process_open_fds"), l.d.MetricIn(body, "go_goroutines")
	r.memory = l.d.MemoryIn(body)
	pid := l.keeper.Cmd.Process.Pid
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	l.Must(err)
	r.keeperDescriptors = float64(len(open))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	l.Must(err)
	_, resident, _ := strings.Cut(string(status), "VmRSS:")
	_, err = fmt.Sscan(resident, &r.keeperMemory)
	l.Must(err)
	r.keeperMemory *= 1024
	r.flows = strings.Count(l.On(l.Node, "cat", "/proc/net/nf_conntrack"), " ESTABLISHED ")
	for _, file := range []string{"unix", "tcp", "tcp6", "udp", "udp6"} {
		for line := range strings.Lines(l.On(l.Node, "cat", "/proc/net/"+file)) {
			if f := strings.Fields(line); file != "unix" && len(f) > 3 && (f[3] == "0A" || f[3] == "07") ||
				file == "unix" && len(f) > 7 && strings.Contains(f[7], "/portald") {
				r.sockets++
			}
		}
	}
	r.rules = l.Rules() + l.On(l.Node, "ip", "rule") + l.On(l.Node, "ip", "-6", "rule") +
		l.On(l.Node, "ip", "-o", "address") + l.On(l.Node, "ip", "route", "show", "table", "all")
	for _, folder := range []string{l.Dir, filepath.Dir(l.d.Socket), "/run"} {
		l.Must(filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			// Killed while it began to listen: see TestListenPrivateTidiesUp.
			if !strings.HasPrefix(path, "/run/netns") && !strings.Contains(path, "/.ptd") {
				r.files = append(r.files, path)
			}
			return err
		}))
	}
	slices.Sort(r.files)
	return r
}

// nothingBeside fails if there is more by now. What ends by itself has time to.
func (l *smallLoad) nothingBeside(before remnants) {
	l.Helper()
	const slack = 24 << 20 // the garbage collector returns memory late
	var now remnants
	more := func() (what string) {
		for _, c := range []struct {
			name        string
			before, now float64
		}{
			{"descriptors", before.descriptors, now.descriptors},
			{"goroutines", before.goroutines, now.goroutines},
			{"memory", before.memory + slack, now.memory},
			{"descriptors of the keeper", before.keeperDescriptors, now.keeperDescriptors},
			{"memory of the keeper", before.keeperMemory + slack, now.keeperMemory},
			{"flows", float64(before.flows), float64(now.flows)},
			{"sockets", float64(before.sockets), float64(now.sockets)},
		} {
			if c.now > c.before {
				what += fmt.Sprintf("%s: %.0f, were %.0f\n", c.name, c.now, c.before)
			}
		}
		if now.rules != before.rules {
			what += fmt.Sprintf("rules:\n%s\nwere:\n%s\n", now.rules, before.rules)
		}
		if !slices.Equal(now.files, before.files) {
			what += fmt.Sprintf("files: %s\nwere: %s\n", now.files, before.files)
		}
		return what
	}
	bed.Within(bed.Patience, func() bool {
		now = l.count()
		return more() == ""
	})
	l.Logf("in the end: %s", now)
	if what := more(); what != "" {
		l.Error(what)
	}
}
