package splice

import (
	"context"

	"github.com/portald/portald/proxy/record"
)

// tcpInfoBatch is how many connections are read at a time. An event loop does nothing else meanwhile, for up to 6 µs
// each: the kernel's state of an idle socket is in no CPU cache.
const tcpInfoBatch = 128

// ReadTCPInfo sets ClientTCP and EndpointTCP of the TCP connections of a Snapshot that are still open. When ctx ends,
// the rest is left as it is.
func (r *Registry) ReadTCPInfo(ctx context.Context, all []record.Live) {
	select {
	case r.readingTCPInfo <- struct{}{}: // one at a time: loops are to have time for connections between two batches
		defer func() { <-r.readingTCPInfo }()
	case <-ctx.Done():
		return
	}
	conns := connsOf(r, all)
	for at := 0; at < len(all) && ctx.Err() == nil; at += tcpInfoBatch {
		end := min(at+tcpInfoBatch, len(all))
		readTCPInfoBatch(ctx, conns[at:end], all[at:end])
	}
}

// readTCPInfoBatch has the owners of one batch of connections, nil where there is none, read it, and waits for them.
func readTCPInfoBatch(ctx context.Context, conns []*Conn, all []record.Live) {
	type answer struct {
		of               int
		client, endpoint record.TCPInfo
	}
	answers, pending := make(chan answer, len(conns)), 0
	for i, conn := range conns {
		if conn == nil {
			continue
		}
		pending++
		conn.owner.TCPInfo(func(client, endpoint record.TCPInfo) { answers <- answer{i, client, endpoint} })
	}
	for range pending {
		select {
		case a := <-answers:
			all[a.of].ClientTCP, all[a.of].EndpointTCP = a.client, a.endpoint
		case <-ctx.Done():
			return
		}
	}
}

// conns are the TCP connections of these, in their order; nil where it is none, or has ended.
func connsOf(r *Registry, of []record.Live) []*Conn {
	place := make(map[uint64]int, len(of))
	for i := range of {
		place[of[i].ID] = i
	}
	conns := make([]*Conn, len(of))
	for _, m := range r.all(int64(len(of))) {
		conn, ok := m.(connMember)
		if i, wanted := place[m.common().id]; ok && wanted {
			conns[i] = conn.Conn
		}
	}
	return conns
}
