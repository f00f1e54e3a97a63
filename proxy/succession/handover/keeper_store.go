package handover

import "time"

// store has the descriptors and states that are kept for one daemon.
type store struct {
	number   uint64    // the later a daemon has come, the higher
	instance string    // of the daemon
	until    time.Time // when its connections are reset; zero: the daemon has not died yet

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
	return &store{
		memory: -1, sockets: map[Socket]int{}, pipes: map[uint32][2]int{}, conns: map[uint32]keptConn{},
	}
}

// take moves the sockets of another store here, except for those that are here already.
func (s *store) take(from *store) {
	for at, fd := range from.sockets {
		if _, has := s.sockets[at]; !has {
			s.sockets[at] = fd
			delete(from.sockets, at)
		}
	}
}

// clear forgets all, and returns the descriptors that were kept.
func (s *store) clear() (old []int) {
	old = s.files()
	s.memory = -1
	clear(s.sockets)
	clear(s.pipes)
	clear(s.conns)
	return old
}

// add adds what a daemon gives, and returns the descriptors that were kept in its place.
func (s *store) add(k *Kept, files []int) (old []int) {
	if k.Memory {
		if s.memory >= 0 {
			old = append(old, s.memory)
		}
		s.memory, files = files[0], files[1:]
	}
	for i, at := range k.Sockets {
		if fd, has := s.sockets[at]; has {
			old = append(old, fd)
		}
		s.sockets[at] = files[i]
	}
	files = files[len(k.Sockets):]
	for i, id := range k.Pipes {
		if pair, has := s.pipes[id]; has {
			old = append(old, pair[:]...)
		}
		s.pipes[id] = [2]int(files[2*i:])
	}
	files = files[2*len(k.Pipes):]
	for i, slot := range k.Slots {
		if c, has := s.conns[slot]; has {
			old = append(old, c.files[:]...)
		}
		s.conns[slot] = keptConn{k.States[i], [2]int(files[2*i:])}
	}
	return old
}

// remove removes what a daemon has closed.
func (s *store) remove(d *Dropped) (old []int) {
	for _, at := range d.Sockets {
		if fd, has := s.sockets[at]; has {
			old = append(old, fd)
			delete(s.sockets, at)
		}
	}
	for _, id := range d.Pipes {
		if pair, has := s.pipes[id]; has {
			old = append(old, pair[:]...)
			delete(s.pipes, id)
		}
	}
	for _, slot := range d.Slots {
		if c, has := s.conns[slot]; has {
			old = append(old, c.files[:]...)
			delete(s.conns, slot)
		}
	}
	return old
}

// kept returns everything that is kept, with its descriptors.
func (s *store) kept() (k Kept, files []int) {
	if s.memory >= 0 {
		k.Memory, files = true, append(files, s.memory)
	}
	for at, fd := range s.sockets {
		k.Sockets, files = append(k.Sockets, at), append(files, fd)
	}
	for id, pair := range s.pipes {
		k.Pipes, files = append(k.Pipes, id), append(files, pair[:]...)
	}
	for slot, c := range s.conns {
		k.Slots, k.States, files = append(k.Slots, slot), append(k.States, c.state), append(files, c.files[:]...)
	}
	return k, files
}

// files returns all descriptors that are kept.
func (s *store) files() []int {
	_, files := s.kept()
	return files
}

// size is how many these are.
func (s *store) size() int {
	n := len(s.sockets) + 2*len(s.pipes) + 2*len(s.conns)
	if s.memory >= 0 {
		n++
	}
	return n
}
