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

const (
	podPort  = 9000 // of the first Service, the next ones follow
	markPort = 1000
)

// places are where the Services of a world are reached. Those of several worlds differ.
type places struct {
	ips          map[string][2]string // of the Services but left and right
	moving, mark string               // the address that left and right have in turns, and that of mark
	crowd        string               // the addresses of Services that come and go begin so

	nodePort, movingPort int
}

func placesOf(world int) places {
	four := func(n int) string { return fmt.Sprintf("10.96.%d.%d", 2*world, n) }
	both := func(n int) [2]string { return [2]string{four(n), fmt.Sprintf("fd00:10:96::%x", world<<8|n)} }
	return places{
		ips:    map[string][2]string{still: both(20), flips: both(30), rolls: both(40)},
		moving: four(50), mark: four(60), crowd: fmt.Sprintf("10.96.%d.", 2*world+1),
		nodePort: bed.NodePort + 20*world, movingPort: bed.NodePort + 20*world + 10,
	}
}

// world is a node with Services, their clients, and the faults that happen to them.
type world struct {
	*bed.Bed
	places
	source source
	node   string // the name of its Node
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

// state is what the source of objects has.
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

func newWorld(b *bed.Bed, m bed.Mode, p places, node string, from source) *world {
	w := &world{
		Bed: b, places: p, source: from, node: node, mode: m, socket: filepath.Join(b.ShortDir(), "keep.sock"),
		state: usual(),
	}
	for pod := range 3 {
		for i, name := range services {
			w.serve(pod, podPort+i, name)
		}
	}
	w.startKeeper()
	w.put(w.wanted())
	args := append(w.source.flags(), bed.PodRanges, "--keep-socket="+w.socket, "--drain-timeout=500ms",
		"--on-exit=remove-on-interrupt", "--udp-timeout="+udpTimeout.String())
	w.daemon = b.Launch(w.source.wrapper(), append(args, m.Args...)...)
	w.daemon.ExpectErrors = w.source.refuses()
	w.daemon.WaitReady()
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

// wanted are the Services of the state; last mark, by which one sees that the others are there too.
func (w *world) wanted() (all []bed.Service) {
	pods := []int{0, 1, 2}
	for i, name := range []string{still, flips, rolls} {
		s := w.service(name, w.nodePort+i, pods, w.ips[name][0], w.ips[name][1])
		switch name {
		case still:
			s.Annotations = w.state.annotations
		case flips:
			s.Mode = w.state.mode
		case rolls:
			s.Pods = w.Endpoints(w.state.pods...)
		}
		all = append(all, s)
	}
	if w.state.owner != "" {
		all = append(all, w.service(w.state.owner, w.movingPort, pods, w.moving))
	}
	for i := range w.state.crowd {
		all = append(all, w.Simple(fmt.Sprint("crowd", i), fmt.Sprint(w.crowd, 1+i), 0))
	}
	m := w.service(mark, 0, pods, w.mark)
	m.Kind, m.Ports = "", []bed.Port{m.Ports[0]}
	m.Ports[0].Number = markPort + w.state.number
	all = append(all, m)
	for i := range all {
		all[i].Namespace = w.node
		for j := range all[i].Pods {
			all[i].Pods[j].Node = w.node
		}
	}
	return all
}

// change brings about another state, and waits until it is applied, or nearly: Services come one by one.
func (w *world) change(change func(*state)) {
	w.mu.Lock()
	change(&w.state)
	w.state.number++
	wanted, number := w.wanted(), w.state.number
	w.mu.Unlock()
	w.put(wanted)
	w.await(fmt.Sprintf("state %d to be applied", number), func() bool {
		return w.answers(w.mark, markPort+number, mark)
	})
}

// put has the source have these Services, once it can.
func (w *world) put(wanted []bed.Service) {
	var err error
	w.await("the source of objects", func() bool {
		err = w.source.put(wanted)
		return err == nil
	})
	w.try("change objects", err)
}

// awaitServed waits until every Service is served.
func (w *world) awaitServed() {
	unserved := ""
	w.await("all Services to be served", func() bool {
		for name, ips := range w.ips {
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
	for began := time.Now(); !bed.Within(bed.Patience, is); began = time.Now() {
		if !w.source.wasAway(began) {
			w.Errorf("waited %s for %s", bed.Patience, what)
			return
		}
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
