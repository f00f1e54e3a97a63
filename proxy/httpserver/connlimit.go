package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// MaxConnections is how many connections, each a descriptor, a server may have unless its options say otherwise.
const MaxConnections = 64

// ConnLimit bounds the open connections of one or more servers. A new connection is always accepted, since it may be
// the probe that decides whether the daemon is restarted. To make room, a connection of the address with the most of
// them is closed: the one that was idle longest, or if none is idle, the one that was served longest. Safe for
// concurrent use.
type ConnLimit struct {
	max int

	mu   sync.Mutex
	open []openConn // guarded by mu; least recently used first
}

type openConn struct {
	conn net.Conn
	from netip.Addr
	busy bool // a request is being answered
}

// NewConnLimit returns a limit of so many connections.
func NewConnLimit(connections int) *ConnLimit { return &ConnLimit{max: connections} }

// track implements http.Server.ConnState.
func (l *ConnLimit) track(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state == http.StateNew {
		for len(l.open) >= l.max {
			l.closeOne()
		}
		l.open = append(l.open, openConn{conn: c, from: remote(c)})
		return
	}
	i := slices.IndexFunc(l.open, func(o openConn) bool { return o.conn == c })
	if i < 0 {
		return // it was closed to make room
	}
	o := l.open[i]
	l.open = slices.Delete(l.open, i, i+1)
	if state == http.StateActive || state == http.StateIdle {
		o.busy = state == http.StateActive
		l.open = append(l.open, o)
	}
}

// closeOne closes a connection to make room.
func (l *ConnLimit) closeOne() {
	count := map[netip.Addr]int{}
	for _, o := range l.open {
		count[o.from]++
	}
	before := func(i, j int) bool {
		a, b := l.open[i], l.open[j]
		if count[a.from] != count[b.from] {
			return count[a.from] > count[b.from]
		}
		return !a.busy && b.busy
	}
	first := 0
	for i := range l.open {
		if before(i, first) {
			first = i
		}
	}
	_ = l.open[first].conn.Close() // the server sees an error at its next read
	l.open = slices.Delete(l.open, first, first+1)
}

// remote returns the address of a client, the zero Addr if it has none.
func remote(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
