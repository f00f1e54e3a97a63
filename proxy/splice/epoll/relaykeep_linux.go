package epoll

import "github.com/portald/portald/proxy/splice"

// kept tells whether somebody keeps the connection, which is noted in the memory as long as it lasts.
func (r *relay) kept() bool { return r.up.mem != nil }

// keep begins to note what the connection does, and returns duplicates of its sockets. False: it cannot be.
func (r *relay) keep(s *stock) (files []int, ok bool) {
	pair, ok := duplicates(r.client.fd, r.endpoint.fd)
	if !ok {
		return nil, false
	}
	if !r.kept() { // else another keeper begins
		if r.slot, ok = s.memory.takeSlot(); !ok {
			sysClose(pair[0])
			sysClose(pair[1])
			return nil, false
		}
		to := &s.memory.slots[r.slot]
		r.up.keep(s, &to.up, r.up.passed)
		r.down.keep(s, &to.down, r.down.passed)
		for _, f := range []*flow{&r.up, &r.down} {
			if f.eof {
				f.mem.ended.Store(1)
			}
		}
	}
	r.noteGiven(false) // it may be for the last keeper
	r.unguard()        // whoever goes on with it may not know of it
	return pair[:], true
}

// keepable tells whether what happens can be noted. It cannot before the header has been sent, nor with urgent data.
func (r *relay) keepable(s *stock) bool {
	return s.memory != nil && r.up.passed >= 0 && !r.client.urgent && !r.endpoint.urgent
}

// positions completes what a keeper has to know of the connection. False: the kernel does not tell.
func (r *relay) positions(to *splice.SavedConn) bool {
	to.Up = r.up.position(r.client.fd, r.endpoint.fd)
	to.Down = r.down.position(r.endpoint.fd, r.client.fd)
	return !to.Up.Unknown && !to.Down.Unknown
}

// noteGiven notes whether another process goes on with the connection, or is about to: all other notes here are not
// true then. Nothing else happens to the connection meanwhile.
func (r *relay) noteGiven(given bool) {
	switch m := r.up.mem; {
	case m == nil:
	case given:
		m.given.Store(1)
	default:
		m.given.Store(0)
	}
}

// unkeep ends that: the connection has ended, or is a successor's.
func (r *relay) unkeep(k *keeping) {
	if r.kept() {
		r.up.mem, r.down.mem = nil, nil
		k.keeper.Ended(r.slot)
	}
}
