package handover

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// Keeping is a daemon's connection to a keeper. One goroutine uses it, and another one may be in Wait.
type Keeping struct {
	c            *channel
	settles      bool                      // the keeper understands Settled and Ping
	room         atomic.Int64              // descriptors that the keeper may still get
	pingSent     atomic.Pointer[time.Time] // when the Ping was sent that it has not answered; nil: it has answered
	memory       bool                      // that it keeps, as what follows
	sockets      map[Socket]bool           // by name
	pipes, slots map[uint32]bool
	claimed      []unsettled // that is not settled
}

// unsettled has the part of a claim that the keeper still keeps.
type unsettled struct {
	memory       bool
	sockets      []Socket
	pipes, slots map[uint32]bool
}

// patience is how long a keeper may take for anything: it has little to do.
const patience = 3 * time.Second

// FindKeeper finds the keeper at a socket. Carries: what this daemon has claimed of the last one. ErrNone: there is
// none.
func FindKeeper(ctx context.Context, path string, own Identity, carries []string) (*Keeping, error) {
	k := &Keeping{sockets: map[Socket]bool{}, pipes: map[uint32]bool{}, slots: map[uint32]bool{}}
	var r Room
	c, err := greet(ctx, path, Hello{
		Identity: own, Protocol: Protocol, State: State, Waits: true, Settles: true, Carries: carries,
	}, &r)
	if err != nil {
		return nil, err
	}
	c.step, c.write = patience, patience
	k.c, k.settles = c, r.Settles
	k.room.Store(int64(r.Files))
	return k, nil
}

// Claim returns what a daemon has left that died, and the Instance of that, nil if there is nothing more; the newest
// comes first. The keeper keeps it until it is settled. After an error nothing is claimed, and the connection to the
// keeper is of no use.
//
// Dead is the Instance of one that is known to have died, or empty: the keeper may learn of that later, as a process
// that ends closes its descriptors one by one.
func (k *Keeping) Claim(dead string) (r *Remains, of string, err error) {
	for until, open := time.Now().Add(exitTime), true; open && err == nil; {
		if time.Now().After(until) {
			dead = ""
		}
		if err = k.c.send(claim, Claim{dead}); err == nil {
			r, of, open, err = k.answer()
		}
	}
	if err != nil || r.empty() {
		return nil, "", err
	}
	k.claims(r)
	return r, of, nil
}

// exitTime bounds the attempts to claim what a dead daemon has left: the keeper may learn of its death late.
const exitTime = 10 * time.Second

// answer reads the answer to a claim.
func (k *Keeping) answer() (r *Remains, of string, open bool, err error) {
	r = &Remains{Memory: -1, Pipes: map[uint32][2]int{}}
	for err == nil {
		var message []byte
		var files []int
		if message, files, err = k.c.receive(k.c.step); err != nil {
			break
		}
		m := kind(message[0])
		if m != keeps {
			closeAll(files)
		}
		switch m {
		case keeps:
			var kept Kept
			if err = decode(message, &kept); err == nil {
				err = kept.check(len(files))
			}
			if err == nil {
				r.add(&kept, files)
			} else {
				closeAll(files)
			}
		case welcome:
			err = k.more(message)
		case done:
			var d Done
			if err = decode(message, &d); err == nil {
				return r, d.Of, d.Open, nil
			}
		default:
			err = fmt.Errorf("%w %s", ErrUnexpected, m)
		}
	}
	r.Close()
	return nil, "", false, fmt.Errorf("claim connections: %w", err)
}

func (r *Remains) empty() bool {
	return r.Memory < 0 && len(r.Files) == 0 && len(r.Pipes) == 0 && len(r.Conns) == 0
}

// Close closes all descriptors.
func (r *Remains) Close() {
	closeAll(r.Files)
	if r.Memory >= 0 {
		closeAll([]int{r.Memory})
	}
	for _, pair := range r.Pipes {
		closeAll(pair[:])
	}
	for _, c := range r.Conns {
		closeAll(c.Files[:])
	}
}

// claims notes what the keeper still keeps of a claim.
func (k *Keeping) claims(r *Remains) {
	h := unsettled{memory: r.Memory >= 0, sockets: r.Sockets, pipes: map[uint32]bool{}, slots: map[uint32]bool{}}
	for id := range r.Pipes {
		h.pipes[id] = true
	}
	for _, c := range r.Conns {
		h.slots[c.Slot] = true
	}
	k.claimed = append(k.claimed, h)
}

// Settled tells the keeper what of one claim, in the order of claims, it need not keep any more: this daemon carries
// it, and has given it to the keeper itself if it is to be kept.
func (k *Keeping) Settled(store int, slots, pipes []uint32) error {
	if !k.settles {
		return nil
	}
	h := &k.claimed[store]
	k.room.Add(2*forget(h.slots, slots) + 2*forget(h.pipes, pipes))
	for len(slots)+len(pipes) > 0 {
		next := Settled{Store: store}
		next.Slots, slots = k.names(slots)
		next.Pipes, pipes = k.names(pipes)
		if err := k.c.send(settles, next); err != nil {
			return err
		}
	}
	return nil
}

// AllSettled tells the keeper to keep nothing more of what was claimed, but for the sockets, which are this daemon's.
func (k *Keeping) AllSettled() error {
	if !k.settles || len(k.claimed) == 0 {
		return nil
	}
	for _, h := range k.claimed {
		if h.memory {
			k.room.Add(1)
		}
		k.room.Add(int64(2*len(h.slots) + 2*len(h.pipes)))
		for _, at := range h.sockets {
			if k.sockets[at] {
				k.room.Add(1)
			}
			k.sockets[at] = true
		}
	}
	k.claimed = nil
	return k.c.send(settles, Settled{All: true})
}

// more takes notice of an answer, and of more room.
func (k *Keeping) more(message []byte) error {
	var r Room
	err := decode(message, &r)
	k.room.Add(int64(r.Files))
	k.pingSent.Store(nil)
	return err
}

// Ping checks whether the keeper still answers. ErrSilent: it has not, for longer than it may take.
func (k *Keeping) Ping() error {
	if !k.settles {
		return nil
	}
	now := time.Now()
	switch pingSent := k.pingSent.Load(); {
	case pingSent == nil:
		k.pingSent.Store(&now)
		return k.c.send(ping, nil)
	case now.Sub(*pingSent) > k.c.step:
		return fmt.Errorf("%w: for %s", ErrSilent, k.c.step)
	}
	return nil
}

// Room is how many descriptors the keeper may still get. It may become more at any time.
func (k *Keeping) Room() int { return int(max(0, k.room.Load())) }

// Keep gives the keeper duplicates of descriptors, which stay open here. ErrFull: it may not open so many.
func (k *Keeping) Keep(kept Kept, files ...int) error {
	_, err := k.keep(kept, files)
	return err
}

// KeepConns gives it connections, but for so many that no message has room for.
func (k *Keeping) KeepConns(all []*splice.Kept) (large int, err error) {
	var kept Kept
	var files []int
	for _, c := range all {
		state, err := encoding.Marshal(c.State)
		if err != nil {
			return 0, fmt.Errorf("encode a connection: %w", err)
		}
		kept.Slots, kept.States = append(kept.Slots, c.Slot), append(kept.States, state)
		files = append(files, c.Files...)
	}
	return k.keep(kept, files)
}

func (k *Keeping) keep(kept Kept, files []int) (large int, err error) {
	if k.room.Add(-int64(len(files))) < 0 {
		k.room.Add(int64(len(files)))
		return 0, ErrFull
	}
	err = kept.inMessages(files, k.c.most, func(some Kept, files []int) error {
		if some.Memory && k.memory {
			k.room.Add(1)
		}
		k.memory = k.memory || some.Memory
		k.room.Add(forget(k.sockets, some.Sockets)) // those in whose place these come
		for _, at := range some.Sockets {
			k.sockets[at] = true
		}
		for _, id := range some.Pipes {
			k.pipes[id] = true
		}
		for _, slot := range some.Slots {
			k.slots[slot] = true
		}
		return k.c.send(keeps, some, files...)
	}, func(uint32) {
		large++
		k.room.Add(2)
	})
	return large, err
}

// Drop tells what the keeper need not keep any more.
func (k *Keeping) Drop(d Dropped) error {
	k.room.Add(forget(k.sockets, d.Sockets) + 2*forget(k.pipes, d.Pipes) + 2*forget(k.slots, d.Slots))
	for len(d.Slots)+len(d.Pipes) > 0 {
		var next Dropped
		next.Slots, d.Slots = k.names(d.Slots)
		next.Pipes, d.Pipes = k.names(d.Pipes)
		if err := k.c.send(drops, next); err != nil {
			return err
		}
	}
	items, err := packAll(d.Sockets)
	if err != nil {
		return err
	}
	return k.c.inMessages(items, func(some []item) error {
		return k.c.send(drops, packedSockets{bodiesOf(some)})
	}, func(int) {})
}

// names are the first ids, half of what a message has room for, and the rest.
func (k *Keeping) names(ids []uint32) (first, rest []uint32) {
	const most = 4096
	n := min(len(ids), most, (k.c.most-fieldsSize)/(2*idSize))
	return ids[:n], ids[n:]
}

// forget deletes names, and returns how many of them were kept.
func forget[name comparable](kept map[name]bool, names []name) (n int64) {
	for _, name := range names {
		if kept[name] {
			n++
			delete(kept, name)
		}
	}
	return n
}

// Wait returns when the keeper is gone, or the connection to it is closed here. Nothing is claimed afterwards.
func (k *Keeping) Wait() error {
	for {
		message, files, err := k.c.receive(0)
		if err == nil && kind(message[0]) == welcome {
			err = k.more(message)
		} else if err == nil {
			err = fmt.Errorf("%w %s", ErrUnexpected, kind(message[0]))
		}
		closeAll(files)
		if err != nil {
			return fmt.Errorf("wait for the keeper's end: %w", err)
		}
	}
}

// Bye tells that this daemon ends in order: nothing is to be kept.
func (k *Keeping) Bye() error { return errors.Join(k.c.send(bye, nil), k.c.unix.Close()) }

// Close ends the connection as if this daemon had died.
func (k *Keeping) Close() { k.c.close() }
