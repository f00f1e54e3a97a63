package chaos

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/portald/portald/integration/bed"
)

const interrupt = syscall.SIGINT

// fault is something that happens to a node. It returns once its effects are over.
type fault struct {
	what    string
	happens func(*rand.Rand, *event)
}

// event is a fault that happened, and the failures that it excuses.
type event struct {
	what        string
	began, over time.Time
	excuses     func(failure) bool // nil: nothing
}

// Events that change what others may cost.
const (
	succeeded = "succeeded"
	raced     = "succeeded by two"
	stopped   = "stopped for a moment"
	wiped     = "rules are wiped"
	forgotten = "flows are forgotten"
	abandoned = "killed with its keeper"
)

// ends are the faults of portald's process.
func (w *world) ends() []fault {
	return []fault{{succeeded, w.succeed}, {succeeded, w.succeed}, {raced, w.race}, {"killed", w.kill},
		{"killed", w.kill}, {abandoned, w.abandon}, {"restarted", w.restart}, {stopped, w.stall},
		{"another keeper", w.replaceKeeper}, {"few descriptors", w.starve}}
}

// changes are the faults of the cluster and of the host. Rules and flows are wiped less often, since that excuses much.
func (w *world) changes() []fault {
	often := append(w.source.faults(w), fault{"another mode", w.flip}, fault{"other endpoints", w.roll},
		fault{"another owner", w.move}, fault{"another crowd", w.gather}, fault{"other annotations", w.annotate},
		fault{"another MTU", w.narrow}, fault{"the client's link is down", w.unplug})
	return append(slices.Repeat(often, 2), fault{wiped, w.wipe}, fault{forgotten, w.forget})
}

func (w *world) flip(_ *rand.Rand, e *event) {
	e.excuses = isDatagram(flips)
	other := map[bool]string{true: "userspace", false: "kernel"}[w.mode.Kernel]
	w.change(func(s *state) { s.mode = map[string]string{"": other, other: ""}[s.mode] })
}

func (w *world) roll(dice *rand.Rand, e *event) {
	e.excuses = isDatagram(rolls)
	pods := dice.Perm(3)[:1+dice.IntN(3)]
	w.change(func(s *state) { s.pods = pods })
}

func (w *world) move(dice *rand.Rand, e *event) {
	e.excuses = func(f failure) bool { return f.service == "" && !f.isCorrupt() }
	next := []string{left, right, ""}[dice.IntN(3)]
	w.change(func(s *state) { s.owner = next })
	w.await("the owner of the address", func() bool {
		return w.isOwner(w.moving, 80, next) && w.isOwner(w.Node.IPv4.String(), w.movingPort, next)
	})
}

func (w *world) gather(dice *rand.Rand, _ *event) {
	n := dice.IntN(50)
	w.change(func(s *state) { s.crowd = n })
}

// settings are annotations that connections survive, whatever they had before.
var settings = []string{
	"portald.io/algorithm: least-connections", "portald.io/algorithm: source-hash", `portald.io/retries: "7"`,
	"portald.io/connect-timeouts: 1s,3s", "portald.io/idle-timeout: 1h", `portald.io/max-connections: "60000"`,
	"portald.io/connection-log: failures", "portald.io/kernel-records: all", "portald.io/slow-start: 5s",
	`portald.io/eject-after: "0"`, "portald.io/wait-for-endpoint: 5s", "portald.io/removed-endpoint: keep",
}

// annotate gives the Service of which nothing else changes other annotations.
func (w *world) annotate(dice *rand.Rand, _ *event) {
	some := map[string]string{}
	for range dice.IntN(4) {
		s := settings[dice.IntN(len(settings))]
		key, _, _ := strings.Cut(s, ":")
		some[key] = s
	}
	w.change(func(s *state) { s.annotations = slices.Sorted(maps.Values(some)) })
}

func isDatagram(of string) func(failure) bool {
	return func(f failure) bool { return f.kind == datagram && f.service == of && !f.isCorrupt() }
}

// succeed has the next portald take over, which nobody notices.
func (w *world) succeed(*rand.Rand, *event) {
	next := w.successor()
	w.await("the predecessor to end", func() bool { return isOver(w.daemon) })
	if code := w.daemon.Exit(); code != 0 {
		w.Errorf("the predecessor ends with code %d", code)
	}
	w.next(next)
}

// successor starts the next portald.
func (w *world) successor() *bed.Daemon {
	next := w.daemon.Succeed()
	next.ExpectErrors = w.source.refuses()
	return next
}

// race has two portalds start at nearly the same time: one takes over from the other.
func (w *world) race(dice *rand.Rand, _ *event) {
	one := w.successor()
	time.Sleep(time.Duration(dice.Int64N(int64(200 * time.Millisecond))))
	other := w.successor()
	w.await("two of three to end", func() bool { return isOver(w.daemon) && (isOver(one) || isOver(other)) })
	if isOver(one) && isOver(other) {
		w.Error("nobody is left")
	}
	for _, d := range []*bed.Daemon{w.daemon, one, other} {
		if isOver(d) && d.Exit() != 0 {
			w.Errorf("it ends with code %d", d.Exit())
		}
	}
	if isOver(one) {
		one = other
	}
	w.next(one)
}

func isOver(d *bed.Daemon) bool {
	select {
	case <-d.Ended:
		return true
	default:
		return false
	}
}

// next is the portald that runs now.
func (w *world) next(d *bed.Daemon) {
	w.daemon = d
	w.await("the next portald", func() bool {
		return strings.Contains(d.Log.String(), "Ready: ")
	})
}

// young is how old a connection is that a keeper may not have.
const young = 2 * time.Second

// kill has portald die, and another one start at once.
func (w *world) kill(_ *rand.Rand, e *event) {
	w.await("the keeper to have what is there", func() bool {
		_, page, err := w.Get("127.0.0.1:10249", "/metrics")
		return err == nil && w.daemon.MetricIn(page, "portald_keeper_connected") == 1
	})
	time.Sleep(young)
	e.began = time.Now()
	e.excuses = func(f failure) bool {
		return w.inUserspace(f) && !f.isCorrupt() && (f.kind == datagram || f.isReset() && e.began.Sub(f.began) < young)
	}
	w.daemon.Signal(syscall.SIGKILL)
	<-w.daemon.Ended
	w.next(w.successor())
}

// abandon has portald and its keeper die, and others start: the connections of the userspace mode go with them. Who was
// told that all was received before may see a clean end.
func (w *world) abandon(_ *rand.Rand, e *event) {
	e.excuses = func(f failure) bool { return w.inUserspace(f) && !errors.Is(f.err, errWrong) }
	w.keeper.Signal(syscall.SIGKILL)
	<-w.keeper.Ended
	w.daemon.Signal(syscall.SIGKILL)
	<-w.daemon.Ended
	w.startKeeper()
	w.next(w.successor())
}

// replaceKeeper has the keeper die, and another one start.
func (w *world) replaceKeeper(*rand.Rand, *event) {
	w.keeper.Signal(syscall.SIGKILL)
	<-w.keeper.Ended
	w.startKeeper()
}

// restart has portald end by itself, and then another one start.
func (w *world) restart(dice *rand.Rand, e *event) {
	e.excuses = func(f failure) bool {
		return w.inUserspace(f) && !f.isCorrupt() && (f.kind == datagram || f.isReset())
	}
	w.daemon.Signal(syscall.SIGTERM)
	if code := w.daemon.Exit(); code != 0 {
		w.Errorf("portald ends with code %d", code)
	}
	if dice.IntN(2) == 0 {
		time.Sleep(time.Duration(dice.Int64N(int64(time.Second))))
	}
	w.next(w.successor())
}

// stall has portald stand still for less time than anybody waits.
func (w *world) stall(dice *rand.Rand, _ *event) {
	w.daemon.Signal(syscall.SIGSTOP)
	time.Sleep(time.Duration(dice.Int64N(int64(2 * time.Second))))
	w.daemon.Signal(syscall.SIGCONT)
}

// wipe takes rules away: all, or those of portald. Whoever comes meanwhile is not served. Without any rule that
// translates addresses the kernel stops to do it for open connections too.
func (w *world) wipe(dice *rand.Rand, e *event) {
	byIPTables := !strings.Contains(w.mode.Name, "nftables")
	command := "nft flush ruleset"
	translates := byIPTables && dice.IntN(2) == 0
	if translates {
		command = "iptables -w -t nat -F"
	} else if !byIPTables && dice.IntN(2) == 0 {
		command = "nft delete table ip portald"
	}
	e.excuses = func(f failure) bool {
		return !f.isCorrupt() && (!translates || f.kind != stream && !f.isReset())
	}
	parts := strings.Fields(command)
	_, _ = w.Try(w.Node, parts[0], parts[1:]...) // there may be nothing to take
	w.change(func(*state) {})
	w.awaitServed()
}

// forget has the kernel forget all flows. Packets of open connections may be led elsewhere then, or nowhere.
func (w *world) forget(_ *rand.Rand, e *event) {
	e.excuses = func(f failure) bool { return !f.isCorrupt() }
	w.try("flush the conntrack table", w.Node.Do(func() error {
		return netlink.ConntrackTableFlush(netlink.ConntrackTable)
	}))
	w.awaitServed()
}

// The MTUs of the client's link: the least that IPv6 allows, and what it had.
const (
	narrowMTU = 1280
	usualMTU  = 1500
)

// narrow has packets to and from the client be smaller for a while, which costs nothing but time.
func (w *world) narrow(dice *rand.Rand, _ *event) {
	w.setMTU(narrowMTU)
	time.Sleep(time.Duration(dice.Int64N(int64(time.Second))))
	w.setMTU(usualMTU)
}

func (w *world) setMTU(mtu int) {
	w.try("set the MTU", w.Client.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, mtu)
	}))
}

// unplug has the client's link be down for a while: nothing can begin there. What is open waits.
func (w *world) unplug(dice *rand.Rand, e *event) {
	e.excuses = func(f failure) bool { return f.from == w.Client.Name && (f.kind == datagram || !f.client.IsValid()) }
	plug, err := w.Client.Unplug("eth0")
	if w.try("take the link down", err); err != nil {
		return
	}
	time.Sleep(time.Duration(dice.Int64N(int64(time.Second))))
	w.try("bring the link up", plug())
}

// spareFiles is how many descriptors portald can still open while they are few.
const spareFiles = 4

// starve leaves portald hardly any descriptors for a while. New connections wait, or are refused.
func (w *world) starve(dice *rand.Rand, e *event) {
	e.excuses = func(f failure) bool { return w.inUserspace(f) && !f.isCorrupt() && f.began.After(e.began.Add(-young)) }
	w.daemon.ExpectErrors = true // it cannot execute commands either
	give := w.daemon.LimitFiles(func(open int) int { return open + spareFiles })
	time.Sleep(time.Duration(dice.Int64N(int64(time.Second))))
	give()
	w.awaitServed()
}

func (w *world) try(what string, err error) {
	if err != nil {
		w.Errorf("%s: %v", what, err)
	}
}
