package modes

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

var restartCount = flag.Int("restarts", 0, "how often TestAbsence restarts the daemon in each mode; 0: some 20 s long")

// In kernel modes nobody notices that the daemon is away. It is stopped, killed, replaced and succeeded by another
// version again and again, and endpoints come and go and a Service changes its mode before that, meanwhile and in its
// midst. No connection that the kernel carries breaks, no new one fails, no byte and no datagram is lost.
func TestAbsence(t *testing.T) {
	for _, m := range bed.Modes() {
		if m.Kernel {
			t.Run(m.Name, func(t *testing.T) { absent(bed.New(t, looks(m)), m) })
		}
	}
}

// lastPod is the endpoint that comes and goes.
const lastPod = 2

// absence is one run of the test.
type absence struct {
	*bed.Bed
	mode     bed.Mode
	versions [2]string // of the program; the first one starts next
	daemon   *bed.Daemon
	up       bool
	*steady

	cart, rolls, flips bed.Service // which changes nothing, its endpoints, its mode
	settled            bool        // the endpoints of rolls are in the rules
	moved              int         // times that these endpoints changed
	flipped            int         // times that flips changed its mode
}

// ends are the ways in which the daemon ends.
var ends = []struct {
	what    string
	signal  syscall.Signal
	code    int
	replace bool // the next to start is of the other version
}{
	{"killed", syscall.SIGKILL, -1, false},
	{"stopped", syscall.SIGTERM, 0, false},
	{"replaced", syscall.SIGTERM, 0, true},
	{"succeeded", 0, 0, true}, // the next one takes over
}

// changes are further events: before the daemon ends, while it is away, and when it is back.
var changes = []struct {
	what                 string
	before, while, after func(*absence)
}{
	{what: "nothing changes"},
	{what: "endpoints change before", before: func(a *absence) { a.roll(); a.settle() }},
	{what: "endpoints change meanwhile", while: (*absence).roll},
	{what: "the mode changes and changes back before", before: func(a *absence) { a.flip("userspace"); a.flip("") }},
	{what: "the mode changes before, and back meanwhile",
		before: func(a *absence) { a.flip("userspace") }, while: func(a *absence) { a.flip("") }},
	{what: "the mode changes meanwhile, and back afterwards",
		while: func(a *absence) { a.flip("userspace") }, after: func(a *absence) { a.flip("") }},
	{what: "the mode changes before, and back afterwards",
		before: func(a *absence) { a.flip("userspace") }, after: func(a *absence) { a.flip("") }},
	{what: "it ends while it applies changes",
		before: (*absence).interrupted, after: func(a *absence) { a.flip("") }},
}

// absences is how often the daemon is away: by default once in each way with each change, or as a slow machine can.
func absences() int {
	switch {
	case *restartCount > 0:
		return *restartCount
	case bed.InVM:
		return len(changes)
	}
	return len(ends) * len(changes)
}

func absent(b *bed.Bed, m bed.Mode) {
	a := &absence{Bed: b, mode: m, versions: versions(b), settled: true}
	a.Program = a.versions[0]
	b.ServePods(0, 1, lastPod)
	a.cart = b.Cart(0, 1)
	a.rolls = like(b.Cart(0, 1, lastPod), "rolls", rollsPort, rolls4, rolls6)
	a.flips = like(a.cart, "flips", flipsPort, flips4, flips6)
	a.write()
	a.start()
	a.steady = newSteady(b)
	a.load()

	began, times := time.Now(), absences()
	for n := range times {
		if n > 0 && n%25 == 0 {
			b.Logf("%d restarts in %s", n, time.Since(began).Round(time.Second))
		}
		a.round(n)
	}
	took := time.Since(began)
	a.finish(a.moved)
	b.Logf("%d restarts in %s, %d changes of endpoints, %d of the mode. %s", times, took.Round(time.Second), a.moved,
		a.flipped, a.steady)
}

const (
	rolls4, rolls6 = "10.96.0.11", "fd00:10:96::11"
	flips4, flips6 = "10.96.0.12", "fd00:10:96::12"

	rollsPort, flipsPort = bed.NodePort + 1, bed.NodePort + 2
)

// like is cart with another name, addresses and node port.
func like(cart bed.Service, name string, node int, ips ...string) bed.Service {
	cart.Name, cart.IPs, cart.Ports = name, ips, slices.Clone(cart.Ports)
	for i := range cart.Ports {
		cart.Ports[i].Node = node
	}
	return cart
}

// versions returns the program, and a copy of it that says to be another version.
func versions(b *bed.Bed) [2]string {
	b.Helper()
	program, err := os.ReadFile(bed.Portald)
	b.Must(err)
	other := filepath.Join(b.Dir, "portald-other")
	program = bytes.ReplaceAll(program, []byte("\t(devel)\t"), []byte("\tv9.9.99\t"))
	b.Must(os.WriteFile(other, program, 0o700))
	out := [2]string{bed.Portald, other}
	if is, was := b.On(b.Node, other, "--version"), b.On(b.Node, bed.Portald, "--version"); is == was {
		b.Fatalf("the other version is %s too", was)
	}
	return out
}

// load puts traffic on all Services, and rounds open more streams.
func (a *absence) load() {
	node := a.Node.IPv4.String()
	pod := a.Net.Pod(0)
	for _, to := range []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80), bed.HostPort(node, bed.NodePort)} {
		a.asks(a.Client, to, nil)
		a.asks(pod, to, nil)
		a.sequence(a.Client, to)
		a.sequence(pod, to)
		a.stream(a.Client, to)
		a.stream(pod, to)
		a.idle(to)
	}
	for _, to := range []string{bed.HostPort(rolls4, 80), bed.HostPort(rolls6, 80)} {
		a.asks(a.Client, to, nil)
		a.stream(a.Client, to)
	}
	a.names(a.Client, bed.HostPort(rolls4, 80))
	for _, to := range []string{bed.HostPort(flips4, 80), bed.HostPort(flips6, 80), bed.HostPort(node, flipsPort)} {
		a.asks(a.Client, to, &a.unserved)
		a.stream(a.Client, to)
	}
}

// round ends the daemon once and starts it again.
func (a *absence) round(n int) {
	end, change := ends[(n+n/len(changes))%len(ends)], changes[n%len(changes)]
	a.say("round %d: it is %s, %s", n, end.what, change.what)
	a.more(n)
	a.do(change.before)

	if end.replace {
		a.versions[0], a.versions[1] = a.versions[1], a.versions[0]
		a.Program = a.versions[0]
	}
	if end.signal == 0 {
		a.succeed(change.while)
	} else {
		a.away(n, end.signal, end.code, change.while)
	}
	a.unserved.end()
	a.settle()
	a.do(change.after)
	a.goesOn("after the start")
}

// away ends the daemon and starts it again.
func (a *absence) away(n int, signal syscall.Signal, code int, while func(*absence)) {
	if signal == syscall.SIGKILL && a.flips.Mode != "" { // rules lead to listeners that are gone
		a.unserved.begin()
	}
	a.up = false
	a.daemon.Signal(signal)
	if is := a.daemon.Exit(); is != code {
		a.Fatalf("%s: exit code %d\n%s", a.what(), is, a.daemon.Log)
	}
	a.goesOn("while it is away")
	a.do(while)
	a.more(n)
	a.start()
}

// succeed has the next daemon take over.
func (a *absence) succeed(while func(*absence)) {
	next := a.daemon.Succeed()
	a.up = false
	a.do(while)
	if is := a.daemon.Exit(); is != 0 {
		a.Fatalf("%s: exit code %d\n%s", a.what(), is, a.daemon.Log)
	}
	next.WaitReady()
	a.daemon, a.up = next, true
}

func (a *absence) do(change func(*absence)) {
	if change != nil {
		change(a)
	}
}

func (a *absence) start() {
	a.daemon = a.Launch(nil, append([]string{"--manifests", filepath.Join(a.Dir, bed.Manifest)}, a.mode.Args...)...)
	a.daemon.WaitReady()
	a.up = true
}

// more opens another stream to each Service, unless there are many. Only the kernel's are to last.
func (a *absence) more(n int) {
	if len(a.streams) >= mostStreams() {
		return
	}
	a.stream(a.Client, bed.HostPort([]string{rolls4, rolls6}[n%2], 80))
	if a.flips.Mode == "" && !a.unserved.is.Load() {
		a.stream(a.Client, bed.HostPort([]string{flips4, flips6}[n%2], 80))
	}
}

func (a *absence) write() { a.WriteManifest(bed.Manifest, a.manifests()) }

func (a *absence) manifests() string { return a.cart.String() + a.rolls.String() + a.flips.String() }

// roll takes the last endpoint away, or brings it back. As in a rolling update, it serves while rules may lead to it.
func (a *absence) roll() {
	a.moved++
	a.settled = false
	if len(a.rolls.Pods) > lastPod {
		a.rolls.Pods = a.Endpoints(0, 1)
	} else {
		for _, command := range []string{"iptables", "ip6tables"} {
			a.On(a.Net.Pod(lastPod), command, "-w", "-F", "INPUT")
		}
		a.rolls.Pods = a.Endpoints(0, 1, lastPod)
	}
	a.write()
}

// settle waits until the endpoints are in the rules. One that was taken away refuses new connections from then on, and
// keeps the open ones.
func (a *absence) settle() {
	if a.settled {
		return
	}
	a.settled = true
	present := len(a.rolls.Pods) > lastPod
	a.Eventually("rules of the endpoints", func() bool { return a.leadsToLast() == present })
	if !present {
		a.Refuse(lastPod)
		a.Eventually("datagrams to go elsewhere", func() bool { return *a.named.Load() != bed.PodName(lastPod) })
	}
}

// looks is the command that shows the rules of a mode.
func looks(m bed.Mode) string {
	return map[string]string{"iptables": "iptables-save", "nftables": "nft", "IPVS": "ipvsadm"}[m.Name]
}

// leadsToLast tells whether rules lead new connections to the last pod.
func (a *absence) leadsToLast() bool {
	rules := ""
	switch a.mode.Name {
	case "IPVS": // a server with weight 0 has its open connections alone
		for line := range strings.Lines(a.On(a.Node, "ipvsadm", "-Ln")) {
			if words := strings.Fields(line); len(words) > 3 && words[0] == "->" && words[3] != "0" {
				rules += line
			}
		}
	case "nftables":
		rules = a.Ruleset()
	default:
		rules = a.Rules()
	}
	pod := a.Net.Pod(lastPod)
	return strings.Contains(rules, pod.IPv4.String()) || strings.Contains(rules, pod.IPv6.String())
}

// flip changes the mode of a Service, and waits until that is applied if the daemon is there.
func (a *absence) flip(mode string) {
	a.flipped++
	a.flips.Mode = mode
	if a.up {
		a.daemon.Apply(a.manifests())
		a.goesOn(fmt.Sprintf("with the mode %q", mode))
	} else {
		a.write()
	}
}

// interrupted changes endpoints and the mode, and leaves the daemon a moment that differs each time.
func (a *absence) interrupted() {
	a.flipped++
	a.flips.Mode = "userspace"
	a.roll()
	time.Sleep(time.Duration(a.moved%8) * bed.VMTimeout(4*time.Millisecond))
}
