package admin

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// MaxConnections is how many connections all servers together hold at the most, each a descriptor.
const MaxConnections = 2*placesOfServer + placesOfChecks

const (
	placesOfServer = 64  // of the health server, and of the metrics server
	placesOfChecks = 128 // of all health-check ports of Services together
)

// places bounds the open connections of one server, or of some. Whoever comes is let in, since it may be the probe that a
// daemon's life depends on: it is one of the address with the most connections that is closed, the one that was idle for
// the longest, and one that is being answered only where that address has no idle one. Safe for concurrent use.
type places struct {
	most int

	mu    sync.Mutex
	taken []place // guarded by mu; last used last
}

// place is an open connection.
type place struct {
	conn net.Conn
	from netip.Addr
	busy bool // it is being answered
}

// follow is http.Server.ConnState.
func (p *places) follow(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if state == http.StateNew {
		for len(p.taken) >= p.most {
			p.vacate()
		}
		p.taken = append(p.taken, place{conn: c, from: remote(c)})
		return
	}
	i := slices.IndexFunc(p.taken, func(at place) bool { return at.conn == c })
	if i < 0 {
		return // it had to go
	}
	at := p.taken[i]
	p.taken = slices.Delete(p.taken, i, i+1)
	if state == http.StateActive || state == http.StateIdle {
		at.busy = state == http.StateActive
		p.taken = append(p.taken, at)
	}
}

func (p *places) vacate() {
	held := map[netip.Addr]int{}
	for _, at := range p.taken {
		held[at.from]++
	}
	worse := func(i, j int) bool {
		a, b := p.taken[i], p.taken[j]
		if held[a.from] != held[b.from] {
			return held[a.from] > held[b.from]
		}
		return !a.busy && b.busy
	}
	worst := 0
	for i := range p.taken {
		if worse(i, worst) {
			worst = i
		}
	}
	_ = p.taken[worst].conn.Close() // its server is told by the error of the next read
	p.taken = slices.Delete(p.taken, worst, worst+1)
}

// remote is the address of a client, all clients without one being the same.
func remote(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
