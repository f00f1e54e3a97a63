package splice

import (
	"context"

	"github.com/portald/portald/proxy/record"
)

// tcpInfoBatch is how many connections are asked for at a time. An event loop does nothing else meanwhile, for up to
// 6 µs each: what the kernel has of an idle socket is in no cache.
const tcpInfoBatch = 128

// AskTCPInfo sets ClientTCP and EndpointTCP of those of a Snapshot that are TCP connections and still open. When ctx
// ends, the rest is left as it is.
func (r *Registry) AskTCPInfo(ctx context.Context, all []record.Live) {
	select {
	case r.asking <- struct{}{}: // one at a time: loops are to have time for connections between two batches
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return
	}
	conns := connsOf(r, all)
	for at := 0; at < len(all) && ctx.Err() == nil; at += tcpInfoBatch {
		end := min(at+tcpInfoBatch, len(all))
		askBatch(ctx, conns[at:end], all[at:end])
	}
}

// askBatch asks for the connections of one batch, nil where there is none, and waits for the answers.
func askBatch(ctx context.Context, conns []*Conn, all []record.Live) {
	type answer struct {
		of               int
		client, endpoint record.TCPInfo
	}
	answers, asked := make(chan answer, len(conns)), 0
	for i, conn := range conns {
		if conn == nil {
			continue
		}
		asked++
		conn.owner.TCPInfo(func(client, endpoint record.TCPInfo) { answers <- answer{i, client, endpoint} })
	}
	for range asked {
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
