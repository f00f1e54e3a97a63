package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/proxy/record"
)

// What large segments that are lost have to show.
const (
	mostTimeouts = 3               // of retransmissions in a row
	missingTime  = 2 * time.Second // without what should have come before that which came
	retryTime    = time.Second     // in which a peer has sent again what was lost
	smallestMSS  = 536             // record.TCPInfo.LargestReceived begins there
)

// stream is what the kernel tells of the socket to one peer.
type stream struct {
	*record.TCPInfo
	at   time.Time // when it told that
	sent int64     // bytes to the peer
}

// lossTo tells whether full segments to the peer are lost, and sent again and again.
func (s *stream) lossTo() bool {
	full := s.RetransmitBytes*2 >= uint64(s.Retransmits)*uint64(s.MSS)
	return s.Timeouts >= mostTimeouts && s.MSS > smallestMSS && full
}

// lossFrom tells whether segments of the peer are lost, none of which came in full size.
func (s *stream) lossFrom() bool {
	return s.MissingInBetween && s.SinceHeard >= missingTime && !s.receivedFull()
}

// since is the moment from which on the peer has to be heard elsewhere: what was lost had been sent again twice. Before
// that its host may have gone.
func (s *stream) since() time.Time {
	if s.lossTo() {
		return s.at.Add(-s.RTO / 2)
	}
	return s.heard().Add(retryTime)
}

func (s *stream) heard() time.Time { return s.at.Add(-s.SinceHeard) }

// sentFull tells whether full segments reached the peer.
func (s *stream) sentFull() bool {
	n := int64(s.SegmentsSent)
	return n > 1 && s.Timeouts == 0 && s.sent*10 >= n*int64(s.MSS)*9
}

// receivedFull tells whether full segments came of the peer: headers take 40 to 72 bytes.
func (s *stream) receivedFull() bool {
	return s.LargestReceived > smallestMSS && uint64(s.LargestReceived)*20 >= uint64(s.PathMTU)*19
}

// path is what the streams of one peer say of the network between it and this node.
type path struct {
	peer    netip.AddrPort // an endpoint, or a client, then without a port
	side    record.Side
	streams []*stream

	to, from int    // streams that lose full segments to the peer, and segments of it
	again    uint32 // segments that were sent again to it
	mss, mtu uint32 // in bytes
	clean    int    // other streams, of which the peer was heard since, that lost nothing
	unclean  int    // and that lost something
	large    int    // of both: with full segments
}

// count fills in the counts.
func (p *path) count() {
	var since []time.Time
	var others []*stream
	for _, s := range p.streams {
		switch {
		case s.lossTo():
			p.to++
			p.again += s.Retransmits
		case s.lossFrom():
			p.from++
		default:
			others = append(others, s)
			continue
		}
		p.mss, p.mtu = max(p.mss, s.MSS), max(p.mtu, s.PathMTU)
		since = append(since, s.since())
	}
	if len(since) < enough {
		return
	}
	slices.SortFunc(since, time.Time.Compare)
	for _, s := range others {
		if !s.heard().After(since[enough-1]) {
			continue
		}
		if s.Retransmits == 0 && s.OutOfOrder == 0 {
			p.clean++
		} else {
			p.unclean++
		}
		if p.to > 0 && s.sentFull() || p.from > 0 && s.receivedFull() {
			p.large++
		}
	}
}

// hole tells whether large segments are lost, and nothing else is.
func (p *path) hole() bool {
	return p.to+p.from >= enough && p.clean >= enough && p.unclean*oneIn <= p.clean && p.large == 0
}

// pathMTU finds peers of a subject to or from which large packets vanish.
type pathMTU struct {
	*builder
	*Subject
	now time.Time
}

func (m *pathMTU) list() {
	paths := m.paths()
	for _, p := range paths {
		p.count()
	}
	paths = slices.DeleteFunc(paths, func(p *path) bool { return p.to+p.from < enough })
	if len(paths) == 0 {
		return
	}
	m.section("Lost segments")
	for _, p := range paths {
		m.lost(p)
	}
}

// lost says what is lost on a path, and finds that only large packets are.
func (m *pathMTU) lost(p *path) {
	name, see := "client "+p.peer.Addr().String(), ""
	if p.side == record.Endpoint {
		name, see = m.name(p.peer), " (see also mtu-pods of portald doctor)"
	}
	of := count(len(p.streams), "connection") + " of " + m.label()
	what, way := "", "between here and there"
	if p.to > 0 {
		what = fmt.Sprintf("%d of %s send full segments (%d bytes) to it again and again (%d so far), without an "+
			"acknowledgement", p.to, of, p.mss, p.again)
	}
	switch {
	case p.from == 0:
		way = "from here to there"
	case p.to == 0:
		what, way = fmt.Sprintf("%d of %s miss segments in the middle of what it sends", p.from, of), "from there to here"
	default:
		what += fmt.Sprintf(", and %d miss segments in the middle of what it sends", p.from)
	}
	others := "nothing was heard of it elsewhere since"
	if p.clean+p.unclean > 0 {
		others = fmt.Sprintf("others since: %d lost nothing, %d lost something, %d had full segments", p.clean, p.unclean,
			p.large)
	}
	m.add(Doubt, nil, "%s: %s; %s", name, what, others)
	if p.hole() {
		m.find(Doubt, p.ping(), "%s: %s, while %s lost nothing: it looks like an MTU black hole, a link %s for packets of "+
			"less than %d bytes, whose ICMP messages do not arrive%s.", name, what, count(p.clean, "other"), way, p.mtu, see)
	}
}

// ping is the command that sends packets of the size that the kernel takes for possible.
func (p *path) ping() string {
	headers := uint32(28)
	if p.peer.Addr().Is6() {
		headers = 48
	}
	return fmt.Sprintf("ping -M do -c 3 -s %d %s", max(p.mtu, headers)-headers, p.peer.Addr())
}

// paths groups what is known of sockets by peer, endpoints first.
func (m *pathMTU) paths() []*path {
	of := map[netip.AddrPort]*path{}
	add := func(side record.Side, peer netip.AddrPort, s stream) {
		if !s.Known || !peer.IsValid() {
			return
		}
		if of[peer] == nil {
			of[peer] = &path{peer: peer, side: side}
		}
		of[peer].streams = append(of[peer].streams, &s)
	}
	past := history{m.Port.Name, m.Changes}
	for _, r := range m.Records {
		if ended := r.Start.Add(r.Duration); !ended.Before(past.changed()) && m.now.Sub(ended) <= recentTime {
			add(record.Endpoint, r.Endpoint.Addr, stream{&r.EndpointTCP, ended, r.BytesToEndpoint})
			add(record.Client, netip.AddrPortFrom(r.Client.Addr(), 0), stream{&r.ClientTCP, ended, r.BytesToClient})
		}
	}
	for i := range m.Live {
		l := &m.Live[i]
		add(record.Endpoint, l.Endpoint.Addr, stream{&l.EndpointTCP, m.now, l.BytesToEndpoint})
		add(record.Client, netip.AddrPortFrom(l.Client.Addr(), 0), stream{&l.ClientTCP, m.now, l.BytesToClient})
	}
	return slices.SortedFunc(maps.Values(of), func(a, b *path) int {
		return cmp.Or(-cmp.Compare(a.side, b.side), a.peer.Compare(b.peer))
	})
}
