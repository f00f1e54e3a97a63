package capture

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/packetfilter"
	"github.com/portald/portald/platform/packets"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// Port is a service port as this node carries it.
type Port struct {
	*service.Port
	Kernel     bool     // the kernel carries it
	ProxyPorts []uint16 // of the daemon's listeners
}

// Source gives packets: see packets.Socket.
type Source interface {
	Read(wait time.Duration, each func(*packets.Frame)) error
	SetProgram(program packetfilter.Program) error
	Drops() packets.Drops
	Close() error
}

// Node has the functions by which a capture learns what the packets of a node are. They are safe for concurrent use.
type Node struct {
	Open  func(program packetfilter.Program) (Source, error)
	Name  func(f *packets.Frame) packets.Interface
	Ports func(wanted func(name string) bool) []Port
	// Subscribe has calls made for what happens to connections of userspace mode, Live lists the open ones.
	Subscribe func(record.Events) (cancel func())
	Live      func() iter.Seq[*record.Live]
	// Translated lists what the kernel carries, with connections that have ended and are not forgotten yet.
	Translated func(ctx context.Context) iter.Seq2[*record.Live, error]
	// Ended has each called for records of what the kernel carried, until cancel.
	Ended func(each func(*record.Record)) (cancel func())
	// Own tells whether an address is this host's.
	Own func(netip.Addr) bool
}

const (
	heldRoom   = 32 << 20               // for packets of which it is not known whose they are, or how these end
	socketRoom = 8 << 20                // for packets that were not read yet
	wait       = 100 * time.Millisecond // of a look for packets
	// late is how much later than packets news of their connection is looked at: packets wait in the kernel's ring.
	late      = 150 * time.Millisecond
	refresh   = time.Second // between two looks at the service ports
	newsQueue = 1 << 14
)

// news is what was told of a connection.
type news struct {
	at      time.Time
	is      Connection
	ended   bool
	proxies []dialled
}

// session is one capture.
type session struct {
	*plan
	node    *Node
	source  Source
	to      *Writer
	tracker *tracker
	scope   *scope
	news    chan news
	lost    atomic.Int64 // news
	waiting []news       // that are not late enough yet

	statistics Statistics
	interfaces map[int]packets.Link
	numbers    uint32
	err        error // of the output
	listed     time.Time
	pause      time.Duration // between two lists of what the kernel carries
}

// Run captures until a limit is reached or ctx ends. An error before anything was written is for whoever asked.
func Run(ctx context.Context, node *Node, r *Request, begin func() (*Writer, error)) error {
	p, err := r.plan()
	if err != nil {
		return err
	}
	s := &session{plan: p, node: node, news: make(chan news, newsQueue), interfaces: map[int]packets.Link{}}
	s.tracker = newTracker(p, heldRoom, s.pass, s.announce)
	if s.scope = s.look(); len(s.scope.ports) == 0 {
		return fmt.Errorf("%w: no Service of this node is or has %q", ErrNothing, r.Targets)
	}
	program, err := s.scope.program(p)
	if err != nil {
		return err
	}
	if s.source, err = node.Open(program); err != nil {
		return err
	}
	defer s.source.Close()
	if s.to, err = begin(); err != nil {
		return err
	}
	return s.run(ctx)
}

// ErrNothing is why nothing was captured: what was named is not there.
var ErrNothing = fmt.Errorf("not found")

func (s *session) run(ctx context.Context) error {
	s.use(s.scope)
	defer s.node.Subscribe(record.Events{
		Started: func(l record.Live) { s.tell(news{is: ofLive(&l)}) },
		Attempted: func(l record.Live, a record.Attempt) {
			s.tell(ofAttempt(&l, &a))
		},
		Ended: func(r *record.Record) { s.tell(ofRecord(r)) },
	})()
	defer s.node.Ended(func(r *record.Record) { s.tell(ofRecord(r)) })()
	for l := range s.node.Live() {
		if is := ofLive(l); s.scope.mayBe(&is) {
			s.tracker.learn(&is, false)
		}
	}
	until, refreshed := time.Now().Add(s.Duration), time.Now()
	if err := s.progress(); err != nil {
		return err
	}
	for {
		why := s.over(ctx, until)
		if why != "" {
			return s.end(ctx, why)
		}
		if err := s.source.Read(min(wait, max(time.Until(until), time.Millisecond)), s.tracker.packet); err != nil {
			return err
		}
		s.hear(time.Now().Add(-late))
		if time.Since(refreshed) > refresh {
			refreshed = time.Now()
			if err := s.refresh(); err != nil {
				return err
			}
		}
		s.list(ctx)
		s.tracker.expire(time.Now(), false)
		if err := s.progress(); err != nil {
			return err
		}
	}
}

// over says why the capture is over, if it is.
func (s *session) over(ctx context.Context, until time.Time) string {
	switch {
	case ctx.Err() != nil:
		return "it was ended"
	case s.statistics.Packets >= s.Packets:
		return fmt.Sprintf("it had %d packets", s.Packets)
	case s.statistics.Bytes >= s.Bytes:
		return fmt.Sprintf("it had %d bytes", s.Bytes)
	case !time.Now().Before(until):
		return fmt.Sprintf("it took %v", s.Duration)
	}
	return ""
}

// end tells what is left, and the end.
func (s *session) end(ctx context.Context, why string) error {
	if ctx.Err() == nil && s.statistics.Packets < s.Packets && s.statistics.Bytes < s.Bytes {
		s.hear(time.Now())
		s.listed = time.Time{}
		s.list(ctx)
		s.tracker.expire(time.Now(), true)
	}
	s.statistics.Open = int64(s.tracker.held.order.Len())
	s.count()
	if s.err != nil {
		return s.err
	}
	return s.to.End(End{Why: why, Statistics: s.statistics})
}

// count sets what others count.
func (s *session) count() {
	drops := s.source.Drops()
	s.statistics.KernelSeen, s.statistics.KernelDropped = drops.Seen, drops.Dropped
	s.statistics.Evicted, s.statistics.Unwanted = s.tracker.held.evicted, s.tracker.unwanted
	s.statistics.Untracked = s.tracker.untracked + s.lost.Load()
}

func (s *session) progress() error {
	s.count()
	before := s.tracker.held.oldest(time.Now().Add(-late).UnixNano())
	if s.err == nil {
		s.err = s.to.Progress(Progress{Before: before, Statistics: s.statistics})
	}
	if s.err == nil {
		s.err = s.to.Flush()
	}
	return s.err
}

// tell is called on the data path: it does not wait.
func (s *session) tell(n news) {
	n.at = time.Now()
	select {
	case s.news <- n:
	default:
		s.lost.Add(1)
	}
}

// hear looks at news that came before a time.
func (s *session) hear(before time.Time) {
	for {
		select {
		case n := <-s.news:
			if s.scope.mayBe(&n.is) {
				s.scope.name(&n.is)
				s.waiting = append(s.waiting, n)
			}
			continue
		default:
		}
		break
	}
	done := 0
	for _, n := range s.waiting {
		if n.at.After(before) {
			break
		}
		s.tracker.learn(&n.is, n.ended, n.proxies...)
		done++
	}
	s.waiting = slices.Delete(s.waiting, 0, done)
}

// list looks for what the kernel carries while there are packets of no known connection. It is a look at the whole
// conntrack table, which takes at most a tenth of the time.
func (s *session) list(ctx context.Context) {
	if !s.scope.kernel || time.Since(s.listed) < max(s.pause, refresh/2) || !s.tracker.waiting() {
		return
	}
	began := time.Now()
	for l, err := range s.node.Translated(ctx) {
		if err != nil {
			break
		}
		if is := ofLive(l); s.scope.mayBe(&is) {
			is.CarriedBy = string(record.Kernel)
			s.tracker.learn(&is, false)
		}
	}
	s.listed = time.Now()
	s.pause = 9 * s.listed.Sub(began)
}

// pass writes a packet, and before it what is new of its interface and its connection.
func (s *session) pass(c *conn, side Side, f *frame) {
	if s.err != nil || s.statistics.Packets >= s.Packets || s.statistics.Bytes >= s.Bytes {
		return
	}
	s.err = s.write(c, &Packet{Time: f.Time, Interface: f.Interface, Side: side, Outgoing: f.Outgoing,
		Length: f.Length, Data: f.Data}, f)
	s.statistics.Packets++
	s.statistics.Bytes += int64(len(f.Data))
}

func (s *session) write(c *conn, p *Packet, f *frame) error {
	if link, known := s.interfaces[f.Interface]; !known || link != f.Link {
		s.interfaces[f.Interface] = f.Link
		if err := s.to.Interface(s.node.Name(&f.Frame)); err != nil {
			return err
		}
	}
	if c.number == 0 {
		s.numbers++
		c.number = s.numbers
	}
	if c.changed {
		s.announce(c)
	}
	p.Connection = c.number
	return cmp.Or(s.err, s.to.Packet(p))
}

// announce writes what is known of a connection.
func (s *session) announce(c *conn) {
	c.changed = false
	if s.err == nil {
		s.err = s.to.Connection(c.number, &c.Connection)
	}
}

// scope is the service ports that may be meant, as they are now.
type scope struct {
	ports      []Port
	names      map[string]bool
	frontends  map[service.Frontend]*Port
	nodePorts  map[service.Frontend]*Port // of any address of this host
	proxyPorts map[uint16]bool
	endpoints  map[netip.AddrPort]service.Endpoint
	kernel     bool
}

func (s *session) look() *scope {
	ports := s.node.Ports(func(name string) bool {
		return slices.ContainsFunc(s.targets, func(t Target) bool { return t.mayBe(name) })
	})
	c := &scope{names: map[string]bool{}, frontends: map[service.Frontend]*Port{}, proxyPorts: map[uint16]bool{},
		nodePorts: map[service.Frontend]*Port{}, endpoints: map[netip.AddrPort]service.Endpoint{}, ports: ports}
	for i := range ports {
		c.add(&ports[i])
	}
	return c
}

func (c *scope) add(p *Port) {
	c.names[p.Name.Label()] = true
	c.kernel = c.kernel || p.Kernel
	for _, x := range p.Exposures {
		if x.Frontend.Addr.Addr().IsUnspecified() {
			c.nodePorts[x.Frontend] = p
			continue
		}
		c.frontends[x.Frontend] = p
	}
	for _, port := range p.ProxyPorts {
		c.proxyPorts[port] = true
	}
	for _, e := range p.Endpoints {
		c.endpoints[e.Addr] = e
	}
}

// mayBe tells whether packets of a connection may be seen.
func (c *scope) mayBe(is *Connection) bool {
	_, known := c.endpoints[is.Endpoint]
	return known || c.names[is.Service]
}

// name names the pod of an endpoint, which an attempt does not tell.
func (c *scope) name(is *Connection) {
	if e, known := c.endpoints[is.Endpoint]; known && is.Pod == "" {
		is.Pod, is.Node = e.Pod, e.Node
	}
}

// precise bounds how many addresses a program compares. Beyond, it looks at ports alone: see tracker for the rest.
const precise = 128

// program is what the kernel keeps.
func (c *scope) program(p *plan) (packetfilter.Program, error) {
	var ports, addresses = map[uint16]bool{}, map[netip.Prefix]bool{}
	note := func(a netip.AddrPort) {
		ports[a.Port()] = true
		addresses[netip.PrefixFrom(a.Addr().Unmap(), a.Addr().Unmap().BitLen())] = true
	}
	for f := range c.frontends {
		note(f.Addr)
	}
	for e := range c.endpoints {
		note(e)
	}
	any := len(addresses) > precise
	own := packetfilter.Ports(packetfilter.Either, slices.Sorted(maps.Keys(ports))...)
	if len(ports) > 4*precise {
		own = packetfilter.Protocols(uint8(inet.TCP), uint8(inet.UDP), uint8(inet.SCTP))
	} else if !any {
		own = packetfilter.And(packetfilter.Addresses(packetfilter.Either, slices.SortedFunc(maps.Keys(addresses),
			netip.Prefix.Compare)...), own)
	}
	local := slices.Collect(maps.Keys(c.proxyPorts))
	for f := range c.nodePorts {
		local = append(local, f.Addr.Port())
	}
	if slices.Sort(local); len(local) > 0 && len(local) <= 4*precise {
		own = packetfilter.Or(own, packetfilter.Ports(packetfilter.Either, slices.Compact(local)...))
	} else if len(local) > 0 {
		own = packetfilter.Protocols(uint8(inet.TCP), uint8(inet.UDP), uint8(inet.SCTP))
	}
	if p.filter != nil {
		own = packetfilter.And(p.filter, own)
	}
	keep := uint32(packets.MostHeaders)
	if p.Payload {
		keep = 1 << 18
	}
	return packetfilter.Compile(own, keep)
}

// refresh follows changes of the service ports.
func (s *session) refresh() error {
	now := s.look()
	if len(now.ports) == len(s.scope.ports) && slices.EqualFunc(now.ports, s.scope.ports, func(a, b Port) bool {
		return a.Port == b.Port && a.Kernel == b.Kernel && slices.Equal(a.ProxyPorts, b.ProxyPorts)
	}) {
		return nil
	}
	program, err := now.program(s.plan)
	if err != nil {
		return err
	}
	s.use(now)
	return s.source.SetProgram(program)
}

// use has the tracker look at these service ports.
func (s *session) use(c *scope) {
	s.scope = c
	s.tracker.proxyPorts = c.proxyPorts
	s.tracker.frontend = func(at netip.AddrPort) *Connection {
		for _, p := range []inet.Protocol{inet.TCP, inet.UDP, inet.SCTP} {
			port := c.frontends[service.Frontend{Addr: at, Protocol: p}]
			if port == nil && s.node.Own(at.Addr()) {
				any := netip.IPv4Unspecified()
				if at.Addr().Is6() {
					any = netip.IPv6Unspecified()
				}
				port = c.nodePorts[service.Frontend{Addr: netip.AddrPortFrom(any, at.Port()), Protocol: p}]
			}
			if port != nil {
				return &Connection{Service: port.Name.Label(), Protocol: p.String()}
			}
		}
		return nil
	}
}

func ofLive(l *record.Live) Connection {
	return Connection{
		ID: l.ID, Service: l.Service.Label(), Protocol: l.Service.Protocol.String(), CarriedBy: string(record.Userspace),
		Client: l.Client, ClientPod: l.ClientPod, Frontend: l.OriginalDst, Proxy: l.Proxy, Endpoint: l.Endpoint.Addr,
		Pod: l.Endpoint.Pod, Node: l.Endpoint.Node,
	}
}

// ofAttempt has the endpoint of a dial that worked: the connection has it a moment later.
func ofAttempt(l *record.Live, a *record.Attempt) news {
	n := news{is: ofLive(l), proxies: []dialled{{a.Proxy, a.Endpoint}}}
	if a.Err == "" && !n.is.Endpoint.IsValid() {
		n.is.Proxy, n.is.Endpoint = a.Proxy, a.Endpoint
	}
	return n
}

func ofRecord(r *record.Record) news {
	n := news{ended: true, is: Connection{
		ID: r.ID, Service: r.Service.Label(), Protocol: r.Service.Protocol.String(), CarriedBy: string(r.CarriedBy),
		Client: r.Client, ClientPod: r.ClientPod, Frontend: r.OriginalDst, Proxy: r.Proxy(), Endpoint: r.Endpoint.Addr,
		Pod: r.Endpoint.Pod, Node: r.Endpoint.Node, Outcome: string(r.Outcome),
	}}
	for _, a := range r.Attempts {
		n.proxies = append(n.proxies, dialled{a.Proxy, a.Endpoint})
	}
	return n
}

func protocolOf(name string) inet.Protocol {
	for _, p := range []inet.Protocol{inet.TCP, inet.UDP, inet.SCTP} {
		if p.String() == name {
			return p
		}
	}
	return 0
}
