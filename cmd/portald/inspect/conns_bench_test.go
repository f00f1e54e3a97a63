package inspect

import (
	"fmt"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

// manyConns are as many connections as a busy node has.
func manyConns(n int) []adminsocket.Connection {
	all := make([]adminsocket.Connection, n)
	for i := range all {
		client := netip.AddrFrom4([4]byte{10, 244, byte(i >> 12), byte(i >> 4)})
		c := &all[i]
		*c = conns()[0]
		c.ID, c.ClientTCP, c.EndpointTCP = uint64(i+1), nil, nil
		c.Client = netip.AddrPortFrom(client, uint16(30000+i%30000))
		c.Service, c.Pod = fmt.Sprintf("shop/cart-%d:http", i%1000), fmt.Sprintf("shop/cart-%d-7f9c6d5b8-x2x%d", i%1000, i%7)
		c.Start = time.Now().UTC().Add(-time.Duration(i*7919%100_000) * time.Second)
		c.LastMoved = c.Start.Add(time.Duration(i%1000) * time.Millisecond)
		c.BytesFromClient, c.BytesFromEndpoint = int64(i*13), int64(i*1301)
	}
	return all
}

// BenchmarkConns lists 100,000 connections: the handler of the daemon, the socket, the client, and the table.
func BenchmarkConns(b *testing.B) {
	t := newBed(b)
	t.connections = manyConns(100_000)
	for _, args := range [][]string{nil, {"--sort", "bytes"}, {"-o", "json"}, {"--limit", "50"}} {
		b.Run(fmt.Sprint(args), func(b *testing.B) {
			for b.Loop() {
				root := newRoot()
				root.SetOut(io.Discard)
				root.SetArgs(append([]string{"conns", "--socket", t.socket}, args...))
				if err := root.ExecuteContext(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
