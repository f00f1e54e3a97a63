package chaos

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/integration/bed"
)

// The Services of a world, each with a port of its own in the pods, where the servers tell the Service's name.
const (
	still = "still" // nothing about it changes
	flips = "flips" // its mode
	rolls = "rolls" // its endpoints
	left  = "left"  // has the address, and gives it to right
	right = "right"
	mark  = "mark" // a port of it tells which state is applied
)

var services = []string{still, flips, rolls, left, right, mark}

// udpTimeout is for what clients leave behind: longer than they wait for an answer.
const udpTimeout = 10 * time.Second

// moving4 is the address that left and right have in turns.
const moving4 = "10.96.0.40"

const (
	podPort    = 9000 // of the first Service, the next ones follow
	movingPort = bed.NodePort + 10
	markPort   = 1000
	mark4      = "10.96.0.50"
)

// world is a node with Services, their clients, and the faults that happen to them.
type world struct {
	*bed.Bed
	mode   bed.Mode
	daemon *bed.Daemon // this and keeper are changed and read by w.ends alone while faults happen
	keeper *bed.Daemon
	socket string // of the keeper

	mu       sync.Mutex // for what follows
	events   []*event
	failures []failure
	state    state

	requests, streamed, said atomic.Int64
}

// state is the content of the manifests.
type state struct {
	number int
	mode   string // of flips
	pods   []int  // of rolls
	owner  string // of the address that moves
	crowd  int    // Services that come and go

	annotations []string // of still
}

// usual is the state that a world begins with, and ends with.
func usual() state { return state{pods: []int{0, 1, 2}, owner: left} }

func newWorld(b *bed.Bed, m bed.Mode) *world {
	w := &world{Bed: b, mode: m, socket: filepath.Join(b.ShortDir(), "keep.sock"),
		state: usual()}
	for pod := range 3 {
		for i, name := range services {
			w.serve(pod, podPort+i, name)
		}
	}
	w.startKeeper()
	args := []string{bed.PodRanges, "--keep-socket=" + w.socket, "--drain-timeout=500ms", "--on-exit=remove-on-interrupt",
		"--udp-timeout=" + udpTimeout.String()}
	w.daemon = b.Start(w.manifests(), append(args, m.Args...)...)
	w.awaitServed()
	return w
}

func (w *world) startKeeper() {
	w.keeper = w.Exec(w.Line("keep", "--socket", w.socket)...)
	w.await("the keeper", func() bool { return strings.Contains(w.keeper.Log.String(), "keeps at") })
}

// serve has a pod tell the Service's name to each client, and then send back what comes.
func (w *world) serve(pod, port int, name string) {
	w.Serve(w.Net.Pod(pod), port, func(c *net.TCPConn) {
		if _, err := io.WriteString(c, name+"\n"); err == nil {
			_, _ = io.Copy(c, c) // the client finds what is wrong
			_ = c.CloseWrite()
		}
	})
	udp, err := w.Net.Pod(pod).ListenPacket("udp", fmt.Sprintf("[::]:%d", port))
	w.Must(err)
	var serving sync.WaitGroup
	serving.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo(append([]byte(name+" "), buf[:n]...), from)
		}
	})
	w.Cleanup(func() { udp.Close(); serving.Wait() })
}

// service is a Service with TCP and UDP at port 80.
func (w *world) service(name string, node int, pods []int, ips ...string) bed.Service {
	target := podPort + slices.Index(services, name)
	return bed.Service{Name: name, Kind: "NodePort", IPs: ips, Pods: w.Endpoints(pods...), Ports: []bed.Port{
		bed.NewPort("tcp", "TCP", 80, node, target), bed.NewPort("udp", "UDP", 80, node, target)}}
}

// addresses of the Services but those of left and right.
var addresses = map[string][2]string{still: {bed.IP4, bed.IP6}, flips: {"10.96.0.20", "fd00:10:96::20"},
	rolls: {"10.96.0.30", "fd00:10:96::30"}}

// manifests are those of the state.
func (w *world) manifests() string {
	all := []int{0, 1, 2}
	var b strings.Builder
	for i, name := range []string{still, flips, rolls} {
		s := w.service(name, bed.NodePort+i, all, addresses[name][0], addresses[name][1])
		switch name {
		case still:
			s.Annotations = w.state.annotations
		case flips:
			s.Mode = w.state.mode
		case rolls:
			s.Pods = w.Endpoints(w.state.pods...)
		}
		b.WriteString(s.String())
	}
	if w.state.owner != "" {
		b.WriteString(w.service(w.state.owner, movingPort, all, moving4).String())
	}
	m := w.service(mark, 0, all, mark4)
	m.Kind, m.Ports = "", []bed.Port{m.Ports[0]}
	m.Ports[0].Number = markPort + w.state.number
	b.WriteString(m.String())
	for i := range w.state.crowd {
		b.WriteString(w.Simple(fmt.Sprint("crowd", i), fmt.Sprintf("10.96.1.%d", 1+i), 0).String())
	}
	return b.String()
}

// change writes the manifests of another state, and waits until it is applied, or nearly: Services come one by one.
func (w *world) change(change func(*state)) {
	w.mu.Lock()
	change(&w.state)
	w.state.number++
	text, number := w.manifests(), w.state.number
	w.mu.Unlock()
	w.WriteManifest(bed.Manifest, text)
	w.await(fmt.Sprintf("state %d to be applied", number), func() bool { return w.answers(mark4, markPort+number, mark) })
}

// awaitServed waits until every Service is served.
func (w *world) awaitServed() {
	unserved := ""
	w.await("all Services to be served", func() bool {
		for name, ips := range addresses {
			for _, ip := range ips {
				if _, err := w.nameAt(ip, 80); err != nil {
					unserved = fmt.Sprintf("%s at %s: %v", name, ip, err)
					return false
				}
			}
		}
		unserved = ""
		return true
	})
	if unserved != "" {
		w.Errorf("not served: %s", unserved)
	}
}

// await is Eventually for any goroutine: it does not end it.
func (w *world) await(what string, is func() bool) {
	if !bed.Within(bed.Patience, is) {
		w.Errorf("waited %s for %s", bed.Patience, what)
	}
}

// answers tells whether the Service answers at once at an address and port.
func (w *world) answers(ip string, port int, name string) bool {
	got, err := w.nameAt(ip, port)
	return err == nil && got == name
}

// isOwner tells whether the Service answers at an address and port; empty: none does.
func (w *world) isOwner(ip string, port int, name string) bool {
	if name != "" {
		return w.answers(ip, port, name)
	}
	_, err := w.nameAt(ip, port)
	return err != nil
}

// nameAt returns the Service that answers at once at an address and port.
func (w *world) nameAt(ip string, port int) (string, error) {
	c, err := bed.Dial(bed.VMTimeout(2*time.Second), w.Client, "tcp", bed.HostPort(ip, port))
	if err != nil {
		return "", err
	}
	defer c.Close()
	return greeting(c)
}

// owner is the Service that has the address that moves; empty: none.
func (w *world) owner() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.owner
}
