package epoll

import (
	"testing"

	"github.com/portald/portald/proxy/splice"
)

// How long TCP_INFO of one connection takes, and how many iterations of the loops meanwhile took more than 2 ms.
func BenchmarkReadTCPInfo(b *testing.B) {
	const conns = 1000 // a rig has room for their records
	r := newRig(b, splice.Options{})
	at := r.open(b, serveTCP(b, echo))
	for range conns {
		c := dialTCP(b, at)
		c.Write([]byte("x"))
		c.Read(make([]byte, 1))
	}
	all := r.Snapshot()
	before := r.long()
	for b.Loop() {
		r.ReadTCPInfo(b.Context(), all)
	}
	if !all[0].ClientTCP.Known {
		b.Error("not known")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/conns, "ns/conn")
	b.ReportMetric(float64(r.long()-before)/float64(b.N), "long-rounds/op")
}

// long counts the iterations of more than 2 ms.
func (r *rig) long() (n uint64) {
	const short = 7 // bounds up to 2 ms
	for i, count := range r.Stats().LoopLatency.Counts {
		if i >= short {
			n += count
		}
	}
	return n
}
