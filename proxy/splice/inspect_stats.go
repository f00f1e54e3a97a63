package splice

import (
	"github.com/portald/portald/proxy/quota"
)

// Stats are figures of a Core at one moment.
type Stats struct {
	Connections  int64       // TCP connections that are open
	Delivering   int64       // of these, ended but for bytes that are still to reach a peer
	Sessions     int64       // UDP sessions that are open
	Waiting      int64       // connections and sessions that wait for an endpoint
	Descriptors  int64       // open, pipes and listeners included
	Pipes        int64       // open
	PipePages    int64       // of memory, that these may fill
	Buffers      int64       // with bytes in them
	ReplayBytes  int64       // of clients, kept to be sent again
	PayloadBytes int64       // of open connections, kept for who debugs a Service
	Kept         int64       // connections that are kept for a successor
	AcceptErrors uint64      // accepts that failed for a shortage, since the start
	UDPDropped   uint64      // datagrams the kernel would not take, since the start
	PortsCrowded uint64      // dials for which PortsError was due, since the start
	LoopLatency  LoopLatency // of all event loops, since the start
	Limits       Limits
}

// Limits has the most of each that there may be; 0: there is no limit.
type Limits struct {
	Descriptors  int64
	Sessions     int64
	PipePages    int64
	Buffers      int64
	ReplayBytes  int64
	PayloadBytes int64
	Kept         int64
	SourcePorts  int64 // local ports: TCP connections to one endpoint; 0: the kernel chooses
}

// Stats returns current figures.
func (c *Core) Stats() Stats {
	a, n, lacks := c.account, &c.counts, &c.shortages
	return Stats{
		Connections: n.conns.Load(), Delivering: n.delivering.Load(), Sessions: n.sessions.Load(), Waiting: n.waiting.Load(),
		Descriptors: a.Used(quota.Descriptors), Pipes: a.Pipes.Len(), PipePages: a.Pipes.Pages(), Buffers: a.Buffers.Len(),
		ReplayBytes: a.Used(quota.ClientBytes), PayloadBytes: a.Used(quota.PayloadBytes),
		Kept: a.Used(quota.Kept), AcceptErrors: lacks.acceptErrors.Load(), UDPDropped: lacks.udpDropped.Load(),
		PortsCrowded: lacks.portsCrowded.Load(), LoopLatency: c.loops.sum(), Limits: c.limits(),
	}
}

func (c *Core) limits() Limits {
	a := c.account
	return Limits{
		Descriptors: a.Most(quota.Descriptors), Sessions: a.Most(quota.Sessions),
		PipePages: a.Pipes.Most(), Buffers: a.Buffers.Most(), Kept: a.Most(quota.Kept),
		ReplayBytes: a.Most(quota.ClientBytes), PayloadBytes: a.Most(quota.PayloadBytes),
		SourcePorts: int64(c.opts.SourcePorts.Count()),
	}
}
