package succession

import (
	"errors"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/epoll"
	"github.com/portald/portald/proxy/succession/handover"
)

// remains has the connections and sockets that dead daemons have left. There are several daemons if one died before it
// carried all that the one before had left: then both have notes of a connection, and the later ones are right.
type remains struct {
	stores    []*claimed // the latest first
	instances []string   // of the daemons
	sockets   []handover.Socket
	files     []int // of sockets
	conns     []*remnant
}

// claimed is the part of one of them.
type claimed struct {
	*handover.Remains
	memory *epoll.Memory   // nil: it cannot be read
	pipes  map[uint32]bool // that are not settled
}

// remnant is one connection, as they tell of it, the latest first.
type remnant struct{ told []told }

type told struct {
	store int
	handover.Remnant
}

// add adds what one has left, whose descriptors are its own from now on.
func (r *remains) add(left *handover.Remains, of string) (err error) {
	c := &claimed{Remains: left, pipes: map[uint32]bool{}}
	if left.Memory >= 0 {
		c.memory, err = epoll.OpenMemory(left.Memory)
	}
	for id := range left.Pipes {
		c.pipes[id] = true
	}
	r.stores = append(r.stores, c)
	if of != "" {
		r.instances = append(r.instances, of)
	}
	return err
}

// sort finds what several tell of the same socket, once all are added.
func (r *remains) sort() {
	sockets, conns := map[handover.Socket]bool{}, map[uint64]*remnant{}
	for i, s := range r.stores {
		for n, at := range s.Sockets {
			if sockets[at] {
				closeFiles(s.Files[n : n+1])
				continue
			}
			sockets[at] = true
			r.sockets, r.files = append(r.sockets, at), append(r.files, s.Files[n])
		}
		for _, c := range s.Conns {
			id := platform.SocketID(c.Files[0])
			known := conns[id]
			if known == nil || id == 0 {
				known = &remnant{}
				r.conns, conns[id] = append(r.conns, known), known
			}
			known.told = append(known.told, told{i, c})
		}
		s.Files, s.Conns = nil, nil
	}
}

func (r *remains) newestID() (id uint64) {
	for _, c := range r.conns {
		for _, t := range c.told {
			if t.State != nil {
				id = max(id, t.State.ID)
			}
		}
	}
	return id
}

// errTaken is a connection that this daemon has already.
var errTaken = errors.New("it was taken over")

// recover returns what is known of a connection by now, and its descriptors, also with an error: they are the
// receiver's.
func (r *remains) recover(c *remnant, taken map[uint64]bool) (state *splice.SavedConn, files []int, err error) {
	at := 0 // who tells it
	for i, t := range c.told {
		s := r.stores[t.store]
		switch {
		case t.State == nil || s.memory == nil:
			err = epoll.ErrNoProof
		case taken[t.State.ID]:
			err = errTaken
		default:
			state = t.State
			files, err = s.memory.Recover(state, t.Slot, t.Files[:], s.Pipes)
		}
		if at = i; err == nil || errors.Is(err, errTaken) || errors.Is(err, epoll.ErrEnded) {
			break
		}
	}
	for i, t := range c.told {
		if i != at || errors.Is(err, errTaken) {
			closeBoth(t.Files)
		}
	}
	if err != nil {
		files = c.told[at].Files[:]
	}
	return state, files, err
}

// giveAway marks as outdated what the dead have noted of connections: this daemon goes on with them.
func (r *remains) giveAway(some []*remnant) {
	for _, c := range some {
		for _, t := range c.told {
			if m := r.stores[t.store].memory; m != nil {
				m.Give(t.Slot)
			}
		}
	}
}

// giveAwayTaken does so with connections of these ids.
func (r *remains) giveAwayTaken(ids map[uint64]bool) {
	for _, c := range r.conns {
		for _, t := range c.told {
			if t.State != nil && ids[t.State.ID] {
				r.giveAway([]*remnant{c})
				break
			}
		}
	}
}

// settled returns what the keeper need not keep any more of each store once these connections are settled.
func (r *remains) settled(some []*remnant) []handover.Dropped {
	gone := make([]handover.Dropped, len(r.stores))
	for _, c := range some {
		for _, t := range c.told {
			gone[t.store].Slots = append(gone[t.store].Slots, t.Slot)
		}
	}
	for i, s := range r.stores {
		for id := range s.pipes {
			if _, there := s.Pipes[id]; !there { // a connection has it
				gone[i].Pipes = append(gone[i].Pipes, id)
				delete(s.pipes, id)
			}
		}
	}
	return gone
}

// close closes what nobody has taken.
func (r *remains) close() {
	closeFiles(r.files)
	r.files = nil
	for _, s := range r.stores {
		if s.memory != nil {
			s.memory.Close()
		}
		s.Memory = -1
		s.Close()
	}
}
