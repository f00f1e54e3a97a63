package handover

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/portald/portald/proxy/splice"
)

// A keeper keeps descriptors for a daemon, and nothing else: when the daemon dies without a successor, the next one
// claims them. These are the messages between the two.
//
//	daemon                        keeper
//	Hello            ──────▶
//	                 ◀──────      Room, and again when there is more
//	Claim            ──────▶      again and again, until nothing is left
//	                 ◀──────      Kept …, Done          of one that died, the last one first
//	Kept, Settled …  ──────▶      what was claimed is held until it is settled: it is here once more
//	Kept, Dropped …  ──────▶
//	Ping             ──────▶
//	                 ◀──────      Room
//	Bye              ──────▶      all is dropped
//
// A daemon touches no byte of a connection that it has claimed before it has given it to the keeper itself, and has
// marked the notes of the one that died as outdated. So at each moment there is somebody's note that is true, whoever
// dies: what a daemon had claimed and not settled can be claimed again, and so can what it gave.

// Room is the keeper's answer to Hello and Ping, and comes again later.
type Room struct {
	Files   int  // descriptors that the daemon may give it, beyond those that it was told of before
	Settles bool // the keeper understands Settled and Ping
}

// Claim requests from a keeper what a daemon has left that died.
type Claim struct {
	Of string // the Instance of one that is known to have died; empty: none is
}

// Settled names the claimed connections and pipes that a keeper need not keep any more.
type Settled struct {
	Store        int // of those that this daemon has claimed, in their order
	Slots, Pipes []uint32
	All          bool // of all stores; their sockets are this daemon's from now on
}

// Kept gives descriptors and states to a keeper, or passes them on to who claims them. Its descriptors come in the
// order of the fields: one for the memory and each socket, two for each pipe and each connection.
type Kept struct {
	Memory  bool
	Sockets []Socket
	Pipes   []uint32 // their ids
	Slots   []uint32 // of connections
	States  []cbor.RawMessage
}

// Dropped names what a keeper need not keep any more, since the daemon has closed it.
type Dropped struct {
	Sockets []Socket
	Pipes   []uint32
	Slots   []uint32
}

// files is how many descriptors belong to it.
func (k *Kept) files() int {
	n := len(k.Sockets) + 2*len(k.Pipes) + 2*len(k.Slots)
	if k.Memory {
		n++
	}
	return n
}

// idSize is the largest encoded size of the id of a slot or pipe, in bytes.
const idSize = 5

// inMessages calls send with parts that one message of so many bytes each has room for, and without with the slot of a
// connection that has no room in any.
func (k *Kept) inMessages(files []int, most int, send func(Kept, []int) error, without func(slot uint32)) error {
	var next Kept
	size, n := fieldsSize, 0 // of next, and its descriptors
	flush := func() error {
		if n == 0 {
			return nil
		}
		err := send(next, files[:n])
		next, files, size, n = Kept{}, files[n:], fieldsSize, 0
		return err
	}
	add := func(bytes, its int, put func()) error {
		var err error
		if size+bytes > most || n+its > maxFiles || n > 0 && size+bytes > bytesAtOnce {
			err = flush()
		}
		put()
		size, n = size+bytes, n+its
		return err
	}
	if k.Memory {
		next.Memory, n = true, 1
	}
	for _, at := range k.Sockets {
		i, err := pack(&at)
		if err == nil {
			err = add(len(i.body), 1, func() { next.Sockets = append(next.Sockets, at) })
		}
		if err != nil {
			return err
		}
	}
	for _, id := range k.Pipes {
		if err := add(idSize, 2, func() { next.Pipes = append(next.Pipes, id) }); err != nil {
			return err
		}
	}
	for i, slot := range k.Slots {
		state := k.States[i]
		if fieldsSize+len(state)+idSize > most {
			if err := flush(); err != nil {
				return err
			}
			files = files[2:]
			without(slot)
			continue
		}
		put := func() { next.Slots, next.States = append(next.Slots, slot), append(next.States, state) }
		if err := add(len(state)+idSize, 2, put); err != nil {
			return err
		}
	}
	return flush()
}

func (k *Kept) check(files int) error {
	if len(k.States) != len(k.Slots) || k.files() != files {
		return fmt.Errorf("%w: %d descriptors and %d states for %d connections", errBatch, files, len(k.States),
			len(k.Slots))
	}
	return nil
}

// Remains has the memory, sockets, pipes and connections of a daemon that died. The receiver owns the descriptors.
type Remains struct {
	Memory  int // its descriptor; -1: it had none
	Sockets []Socket
	Files   []int // of Sockets
	Pipes   map[uint32][2]int
	Conns   []Remnant
}

// Remnant is one connection of these.
type Remnant struct {
	Slot  uint32
	State *splice.SavedConn // nil: it is not understood
	Files [2]int
}

// add adds what a message brings.
func (r *Remains) add(k *Kept, files []int) {
	if k.Memory {
		r.Memory, files = files[0], files[1:]
	}
	r.Sockets = append(r.Sockets, k.Sockets...)
	r.Files = append(r.Files, files[:len(k.Sockets)]...)
	files = files[len(k.Sockets):]
	for i, id := range k.Pipes {
		r.Pipes[id] = [2]int(files[2*i:])
	}
	files = files[2*len(k.Pipes):]
	for i, slot := range k.Slots {
		s := &splice.SavedConn{}
		if decodingShort.Unmarshal(k.States[i], s) != nil || checkLife(&s.SavedLife) != nil {
			s = nil
		}
		r.Conns = append(r.Conns, Remnant{slot, s, [2]int(files[2*i:])})
	}
}
