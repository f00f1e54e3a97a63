package splice

import (
	"context"
	"time"
)

// TCPInfo is what the kernel tells of a TCP socket (TCP_INFO). A system tells what it has: the rest is 0.
type TCPInfo struct {
	Known           bool          // the rest was asked for, and answered
	RTT             time.Duration // smoothed round-trip time
	RTTVar          time.Duration // its mean deviation
	ReceiverLimited time.Duration // time that sending waited for the peer's receive window
	SenderLimited   time.Duration // time that sending waited for our own send buffer
	Busy            time.Duration // time that there was something to send, or to be acknowledged
	Retransmits     uint32        // segments, since the socket was connected
	Lost            uint32        // segments that are thought lost at this moment
	DeliveryRate    uint64        // what the peer acknowledged lately, in bytes/s
}

// tcpInfoBatch is how many connections are asked for at a time. An event loop does nothing else meanwhile, for up to
// 6 µs each: what the kernel has of an idle socket is in no cache.
const tcpInfoBatch = 128

// AskTCPInfo sets ClientTCP and EndpointTCP of those of a Snapshot that are TCP connections and still open. When ctx
// ends, the rest is left as it is.
func (c *Core) AskTCPInfo(ctx context.Context, all []Live) {
	select {
	case c.asking <- struct{}{}: // one at a time: loops are to have time for connections between two batches
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return
	}
	conns := c.registry.conns(all)
	for at := 0; at < len(all) && ctx.Err() == nil; at += tcpInfoBatch {
		end := min(at+tcpInfoBatch, len(all))
		askBatch(ctx, conns[at:end], all[at:end])
	}
}

// askBatch asks for the connections of one batch, nil where there is none, and waits for the answers.
func askBatch(ctx context.Context, conns []*Conn, all []Live) {
	type answer struct {
		of               int
		client, endpoint TCPInfo
	}
	answers, asked := make(chan answer, len(conns)), 0
	for i, conn := range conns {
		if conn == nil {
			continue
		}
		asked++
		conn.owner.TCPInfo(func(client, endpoint TCPInfo) { answers <- answer{i, client, endpoint} })
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
