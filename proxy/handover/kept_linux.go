package handover

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/portald/portald/proxy/splice"
)

// Keeping is a daemon's connection to a keeper. One goroutine uses it, and another one may be in Wait.
type Keeping struct {
	c            *channel
	room         atomic.Int64    // descriptors that the keeper may still get
	sockets      map[Socket]bool // that it holds
	pipes, slots map[uint32]bool
}

// FindKeeper finds the keeper at a socket. ErrNone: there is none.
func FindKeeper(ctx context.Context, path string, own Identity) (*Keeping, error) {
	k := &Keeping{sockets: map[Socket]bool{}, pipes: map[uint32]bool{}, slots: map[uint32]bool{}}
	var r Room
	c, err := greet(ctx, path, own, &r)
	if err != nil {
		return nil, err
	}
	k.c = c
	k.room.Store(int64(r.Files))
	return k, nil
}

// Claim returns what a daemon has left that died, nil if there is nothing.
func (k *Keeping) Claim() (*Remains, error) {
	if err := k.c.send(claim, nil); err != nil {
		return nil, err
	}
	r := &Remains{Memory: -1, Pipes: map[uint32][2]int{}}
	for {
		message, files, err := k.c.receive(step)
		if err != nil {
			return nil, fmt.Errorf("claim connections: %w", err)
		}
		switch m := kind(message[0]); m {
		case keeps:
			var kept Kept
			err := decode(message, &kept)
			if err == nil {
				err = kept.check(len(files))
			}
			if err == nil {
				err = r.add(&kept, files)
			}
			if err != nil {
				return nil, err
			}
		case welcome:
			if err := k.more(message); err != nil {
				return nil, err
			}
		case done:
			if r.Memory < 0 && len(r.Files) == 0 {
				return nil, nil
			}
			return r, nil
		default:
			closeAll(files)
			return nil, fmt.Errorf("claim connections: %w %s", ErrUnexpected, m)
		}
	}
}

// more takes notice of more room.
func (k *Keeping) more(message []byte) error {
	var r Room
	err := decode(message, &r)
	k.room.Add(int64(r.Files))
	return err
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

// Drop tells what the keeper need not hold any more.
func (k *Keeping) Drop(d Dropped) error {
	k.room.Add(forget(k.sockets, d.Sockets) + 2*forget(k.pipes, d.Pipes) + 2*forget(k.slots, d.Slots))
	names := func(ids []uint32) (first, rest []uint32) {
		n := min(len(ids), namesAtOnce, (k.c.most-fieldsSize)/(2*idSize))
		return ids[:n], ids[n:]
	}
	for len(d.Slots)+len(d.Pipes) > 0 {
		var next Dropped
		next.Slots, d.Slots = names(d.Slots)
		next.Pipes, d.Pipes = names(d.Pipes)
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

// namesAtOnce is how many slots and pipes that are not held any more one message names at the most.
const namesAtOnce = 4096

// forget deletes names, and returns how many of them were held.
func forget[name comparable](held map[name]bool, names []name) (n int64) {
	for _, name := range names {
		if held[name] {
			n++
			delete(held, name)
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

// Bye tells that this daemon ends in order: nothing is to be held.
func (k *Keeping) Bye() error { return errors.Join(k.c.send(bye, nil), k.c.unix.Close()) }

// Close ends the connection as if this daemon had died.
func (k *Keeping) Close() { k.c.close() }
