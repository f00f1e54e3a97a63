package balance

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
)

// A table is Maglev's consistent hash: each of its places belongs to an endpoint, each endpoint has nearly as many as
// the others, and if one goes hardly any other place changes hands. It depends on the endpoints alone, so that all
// nodes have the same. (Eisenbud et al., Maglev: A Fast and Reliable Software Network Load Balancer, NSDI 2016, section
// 3.4.)
type table []uint32 // of indices in the list of endpoints

// tableSizes are primes. 65537 is the paper's for hundreds of endpoints; with its 655373 for thousands a table takes
// 0.2 s to make, which would hold up others. Smaller ones have a Service with few endpoints take less memory: a hundred
// places for each keep the difference at one in a hundred. A list that outgrows a size has most clients move.
var tableSizes = []struct{ endpoints, places int }{{20, 2039}, {163, 16381}, {1 << 32, 65537}}

// newTable returns the table of some endpoints, at least one.
func newTable(endpoints []netip.AddrPort) table {
	size := 0
	for len(endpoints) > tableSizes[size].endpoints {
		size++
	}
	places := uint64(tableSizes[size].places)
	next, skip := make([]uint64, len(endpoints)), make([]uint64, len(endpoints))
	for i, e := range endpoints {
		next[i], skip[i] = hash(e, 1)%places, hash(e, 2)%(places-1)+1
	}
	const free = ^uint32(0)
	t := make(table, places)
	for i := range t {
		t[i] = free
	}
	for filled := uint64(0); ; {
		for i := range endpoints {
			for t[next[i]] != free {
				next[i] = (next[i] + skip[i]) % places
			}
			t[next[i]] = uint32(i)
			if filled++; filled == places {
				return t
			}
		}
	}
}

// hash is one of the hashes of an address, the same on every node.
func hash(at netip.AddrPort, which uint64) uint64 {
	var b [26]byte
	addr := at.Addr().As16()
	copy(b[:], addr[:])
	binary.BigEndian.PutUint16(b[16:], at.Port())
	binary.BigEndian.PutUint64(b[18:], which)
	h := fnv.New64a()
	h.Write(b[:])
	return spread(h.Sum64())
}

// spread has all bits of a number depend on all others: FNV alone leaves the upper ones alike for addresses that differ
// in their last byte. (The last steps of MurmurHash3, which is in the public domain.)
func spread(n uint64) uint64 {
	n ^= n >> 33
	n *= 0xff51afd7ed558ccd
	n ^= n >> 33
	n *= 0xc4ceb9fe1a85ec53
	return n ^ n>>33
}
