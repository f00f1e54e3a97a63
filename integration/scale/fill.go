//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// fill adds Services up to a number. They are written past the API server, which goes through all addresses for each
// that it gives, and so makes Services ever more slowly. It is away meanwhile: else it could see a Service before the
// address, and would repair that.
func (s *stock) fill(ctx context.Context, size int) (time.Duration, error) {
	began := time.Now()
	if err := s.plane.Stop(cluster.APIServer); err != nil {
		return 0, err
	}
	for from := s.size; from < size; from += mostServices {
		if err := s.write(ctx, from, min(size, from+mostServices)); err != nil {
			return 0, err
		}
	}
	s.size = size
	err := s.plane.Start(cluster.APIServer)
	return time.Since(began), err
}

// mostServices is how many fit into a transaction.
const mostServices = mostEntries / 3

func (s *stock) write(ctx context.Context, from, to int) error {
	var all []entry
	for i := from; i < to; i++ {
		entries, err := s.sample.entries(name(i), s.draw(), s.addresses(i, 0))
		if err != nil {
			return err
		}
		all = append(all, entries...)
	}
	return s.store.create(ctx, all)
}

// draw is a ClusterIP that no Service has, at random, as the API server gives them: writers sort Services by it.
func (s *stock) draw() netip.Addr {
	const static = 1 + 256 // the first are kept for Services that name theirs
	all := netip.MustParsePrefix(topology.ClusterIPs4)
	first := all.Addr().As4()
	for {
		n := binary.BigEndian.Uint32(first[:]) + static + rand.Uint32N(1<<(32-all.Bits())-static-1)
		var at [4]byte
		binary.BigEndian.PutUint32(at[:], n)
		if a := netip.AddrFrom4(at); !s.drawn[a] {
			s.drawn[a] = true
			return a
		}
	}
}
