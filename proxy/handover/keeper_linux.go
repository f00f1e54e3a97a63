package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform"
)

// Keeper holds descriptors for daemons. Safe for concurrent use.
type Keeper struct {
	Log   logrus.FieldLogger
	Limit int           // of descriptors
	For   time.Duration // how long what a daemon has left is held that died; then its connections are reset

	mu      sync.Mutex
	held    int      // guarded by mu, as what follows: descriptors
	served  []*guest // the oldest first
	orphans []*store // of those that have died, the oldest first
}

// guest is a daemon that is served.
type guest struct {
	*store
	c       *channel
	granted int // descriptors that it may have held, by what it was told
}

// Serve serves the daemons of this user that find the socket, until ctx ends. What it holds then is closed.
func (k *Keeper) Serve(ctx context.Context, path string) error {
	l, err := platform.ListenPrivate(platform.PacketSocket, path)
	if err != nil {
		return err
	}
	all, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, func() {
		k.abandon()
		_ = l.Close()
		end()
	})
	defer stop()
	var daemons sync.WaitGroup
	defer daemons.Wait()
	for {
		conn, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			k.Log.WithError(err).Warn("A daemon was not accepted")
			time.Sleep(time.Millisecond) // it may be for want of descriptors
			continue
		}
		c, err := newChannel(conn)
		if err != nil {
			k.Log.WithError(err).Warn("A daemon was refused")
			continue
		}
		daemons.Go(func() { k.keep(all, c) })
	}
}

// keep holds what one daemon gives, until that says good-bye, or dies.
func (k *Keeper) keep(ctx context.Context, c *channel) {
	defer c.close()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	var h Hello
	if err := c.expect(hello, &h, step); err != nil {
		k.Log.WithError(err).Warn("A daemon was refused")
		return
	}
	log := k.Log.WithField("pid", h.PID)
	s := newStore()
	err := c.send(welcome, k.serve(&guest{store: s, c: c}))
	for err == nil {
		var message []byte
		var files []int
		if message, files, err = c.receive(0); err == nil {
			err = k.take(c, s, message, files)
		}
	}
	switch {
	case ctx.Err() != nil:
		k.drop(s)
	case errors.Is(err, errBye):
		k.drop(s)
		log.Info("The daemon has ended in order: nothing is held for it any more")
	case dead(err):
		log.Warnf("The daemon has died: %d connections and %d listeners are held for the next one", len(s.conns),
			len(s.sockets))
		k.orphan(s)
	default:
		log.WithError(err).Warn("The daemon says what is not understood: nothing is held for it any more")
		k.drop(s)
	}
}

// serve returns what a daemon is told that comes.
func (k *Keeper) serve(g *guest) Room {
	k.mu.Lock()
	defer k.mu.Unlock()
	g.granted = max(0, k.Limit-k.held)
	k.served = append(k.served, g)
	return Room{Files: g.granted}
}

// leave is called with mu held when the daemon of a store has ended.
func (k *Keeper) leave(s *store) {
	k.served = slices.DeleteFunc(k.served, func(g *guest) bool { return g.store == s })
}

// grant tells the newest daemon of what it may have held by now beyond what it knows: what others had, or left, is
// closed.
func (k *Keeper) grant() {
	k.mu.Lock()
	var more int
	var g *guest
	if n := len(k.served); n > 0 {
		g = k.served[n-1]
		others := k.held - g.size()
		more = k.Limit - others - g.granted
		g.granted += max(0, more)
	}
	k.mu.Unlock()
	if more > 0 {
		_ = g.c.send(welcome, Room{Files: more}) // or it is dead
	}
}

// alone tells whether no other daemon is served than the one that asks.
func (k *Keeper) alone() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.served) <= 1
}

// newsTime is more than it takes to learn that a daemon has died whose successor is there already.
const newsTime = time.Second

var errBye = errors.New("bye")

// take does what a message says.
func (k *Keeper) take(c *channel, s *store, message []byte, files []int) error {
	switch m := kind(message[0]); m {
	case keeps:
		var kept Kept
		err := decode(message, &kept)
		if err == nil {
			err = kept.check(len(files))
		}
		if err != nil {
			closeAll(files)
			return err
		}
		k.close(k.add(s, &kept, files))
		return nil
	case drops:
		var d Dropped
		if err := decode(message, &d); err != nil {
			return err
		}
		k.close(k.remove(s, &d))
		return nil
	case claim:
		return k.pass(c)
	case bye:
		return errBye
	default:
		closeAll(files)
		return fmt.Errorf("%w %s", ErrUnexpected, m)
	}
}

// add and remove change a store, and return the descriptors that are to be closed.
func (k *Keeper) add(s *store, kept *Kept, files []int) (old []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held += len(files)
	return s.add(kept, files)
}

func (k *Keeper) remove(s *store, d *Dropped) (old []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.remove(d)
}

func (k *Keeper) close(files []int) {
	closeAll(files)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held -= len(files)
}

// orphan holds what a daemon has left, for some time.
func (k *Keeper) orphan(s *store) {
	k.mu.Lock()
	k.leave(s)
	k.orphans = append(k.orphans, s)
	k.mu.Unlock()
	time.AfterFunc(k.For, func() {
		if k.adopt(s) {
			k.Log.Warnf("No daemon has come for %s: %d connections are reset", k.For, k.reset(s))
			k.drop(s)
		}
	})
}

// abandon resets what daemons have left that have died: nobody comes for it any more, and clients would take a close
// for the end of a stream. While a daemon lives it may have them too.
func (k *Keeper) abandon() {
	k.mu.Lock()
	orphans, alone := slices.Clone(k.orphans), len(k.served) == 0
	k.mu.Unlock()
	for _, s := range orphans {
		if alone && k.adopt(s) {
			k.Log.Warnf("The keeper ends: %d connections of a daemon that has died are reset", k.reset(s))
			k.drop(s)
		}
	}
}

// reset resets the connections of a store, and returns how many, but for those of a daemon that lives: it took them
// over just before the other one died.
func (k *Keeper) reset(s *store) (n int) {
	live := map[uint64]bool{}
	k.mu.Lock()
	for _, o := range k.served {
		for _, c := range o.conns {
			live[platform.SocketID(c.files[0])] = true
		}
	}
	k.mu.Unlock()
	for _, c := range s.conns {
		if live[platform.SocketID(c.files[0])] {
			continue
		}
		platform.Disconnect(c.files[0])
		platform.Disconnect(c.files[1])
		n++
	}
	return n
}

// adopt takes a store from the orphans. False: it is not there any more.
func (k *Keeper) adopt(s *store) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, o := range k.orphans {
		if o == s {
			k.orphans = append(k.orphans[:i], k.orphans[i+1:]...)
			return true
		}
	}
	return false
}

func (k *Keeper) newest() *store {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.orphans); n > 0 {
		return k.orphans[n-1]
	}
	return nil
}

func (k *Keeper) drop(s *store) {
	k.mu.Lock()
	k.leave(s)
	files := s.files()
	*s = *newStore()
	k.mu.Unlock()
	k.close(files)
	k.grant()
}

// pass passes the newest of what was left to a daemon. From then on it is that one's, whatever becomes of it: nobody
// else may go on with the same connections.
func (k *Keeper) pass(c *channel) error {
	for until := time.Now().Add(newsTime); k.newest() == nil && !k.alone() && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	s := k.newest()
	if s == nil || !k.adopt(s) {
		return c.send(done, Done{})
	}
	defer k.drop(s)
	kept, files := s.kept()
	send := func(some Kept, files []int) error { return c.send(keeps, some, files...) }
	if err := kept.inMessages(files, c.most, send, func(uint32) {}); err != nil { // nothing is larger than when it came
		return err
	}
	return c.send(done, Done{Left: int64(len(s.conns))})
}
