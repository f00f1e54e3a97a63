package handover

// store is what is held for one daemon.
type store struct {
	memory  int // -1: none
	sockets map[Socket]int
	pipes   map[uint32][2]int
	conns   map[uint32]keptConn
}

type keptConn struct {
	state []byte
	files [2]int
}

func newStore() *store {
	return &store{memory: -1, sockets: map[Socket]int{}, pipes: map[uint32][2]int{}, conns: map[uint32]keptConn{}}
}

// add adds what a daemon gives, and returns the descriptors that were held in its place.
func (s *store) add(k *Kept, files []int) (old []int) {
	if k.Memory {
		if s.memory >= 0 {
			old = append(old, s.memory)
		}
		s.memory, files = files[0], files[1:]
	}
	for i, at := range k.Sockets {
		if fd, held := s.sockets[at]; held {
			old = append(old, fd)
		}
		s.sockets[at] = files[i]
	}
	files = files[len(k.Sockets):]
	for i, id := range k.Pipes {
		if pair, held := s.pipes[id]; held {
			old = append(old, pair[:]...)
		}
		s.pipes[id] = [2]int(files[2*i:])
	}
	files = files[2*len(k.Pipes):]
	for i, slot := range k.Slots {
		if c, held := s.conns[slot]; held {
			old = append(old, c.files[:]...)
		}
		s.conns[slot] = keptConn{k.States[i], [2]int(files[2*i:])}
	}
	return old
}

// remove removes what a daemon has closed.
func (s *store) remove(d *Dropped) (old []int) {
	for _, at := range d.Sockets {
		if fd, held := s.sockets[at]; held {
			old = append(old, fd)
			delete(s.sockets, at)
		}
	}
	for _, id := range d.Pipes {
		if pair, held := s.pipes[id]; held {
			old = append(old, pair[:]...)
			delete(s.pipes, id)
		}
	}
	for _, slot := range d.Slots {
		if c, held := s.conns[slot]; held {
			old = append(old, c.files[:]...)
			delete(s.conns, slot)
		}
	}
	return old
}

// files are all descriptors that are held.
func (s *store) files() (all []int) {
	if s.memory >= 0 {
		all = append(all, s.memory)
	}
	for _, fd := range s.sockets {
		all = append(all, fd)
	}
	for _, pair := range s.pipes {
		all = append(all, pair[:]...)
	}
	for _, c := range s.conns {
		all = append(all, c.files[:]...)
	}
	return all
}
