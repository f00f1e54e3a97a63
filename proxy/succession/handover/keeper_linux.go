package handover

import (
	"cmp"
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

// Keeper keeps descriptors for daemons. Safe for concurrent use.
type Keeper struct {
	Log   logrus.FieldLogger
	Limit int           // of descriptors
	For   time.Duration // how long the descriptors of a daemon that died are kept; then its connections are reset

	mu          sync.Mutex
	descriptors int       // guarded by mu, as what follows: descriptors
	came        uint64    // daemons so far
	served      []*client // the oldest first
	left        []*store  // of those that have died, the oldest first
}

// client is a daemon that is served.
type client struct {
	*store
	c       *channel
	granted int      // descriptors that it may have kept, by what it was told, with those that it has claimed
	settles bool     // it says when it carries what it has claimed
	claimed []*store // that it has not settled, in the order of its claims
	carries []string // instances of daemons whose connections it carries
}

// outdates tells whether a store says nothing true any more, since its daemon, or the one that claimed it, lives.
func (g *client) outdates(s *store) bool {
	return s.instance != "" && slices.Contains(g.carries, s.instance)
}

// size returns how many descriptors are kept for a daemon.
func (g *client) size() int {
	n := g.store.size()
	for _, s := range g.claimed {
		n += s.size()
	}
	return n
}

// Serve serves the daemons of this user that find the socket, until ctx ends. Then it closes all that it keeps.
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
	defer func() {
		daemons.Wait()
		k.mu.Lock()
		left := k.left
		k.left = nil
		k.mu.Unlock()
		k.drop(left...)
	}()
	for {
		conn, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			k.Log.WithError(err).Warn("Cannot accept a portald")
			time.Sleep(time.Millisecond) // perhaps there are no descriptors left
			continue
		}
		c, err := newChannel(conn)
		if err != nil {
			k.Log.WithError(err).Warn("Refused a portald")
			continue
		}
		daemons.Go(func() { k.keep(all, c) })
	}
}

// keep keeps what one daemon gives, until that says good-bye, or dies.
func (k *Keeper) keep(ctx context.Context, c *channel) {
	defer c.close()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	var h Hello
	if err := c.expect(hello, &h, step); err != nil {
		k.Log.WithError(err).Warn("Refused a portald")
		return
	}
	log := k.Log.WithField("pid", h.PID)
	g := &client{store: newStore(), c: c, settles: h.Settles}
	g.instance = h.Instance
	err := c.send(welcome, k.serve(g))
	k.carries(g, h.Carries...)
	for err == nil {
		var message []byte
		var files []int
		if message, files, err = c.receive(0); err != nil {
			break
		}
		if err = k.take(g, message, files); dead(err) { // it is not there for the answer: what else it said is
			err = nil
		}
	}
	died := ctx.Err() == nil && dead(err)
	conns, listeners, claimed := k.leave(g, died)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errBye):
		log.Info("portald ended normally: released what was held for it")
	case died:
		log.Warnf("portald died: holding %d connections and %d listeners for the next one, and %d connections "+
			"that it had claimed", conns, listeners, claimed)
	default:
		log.WithError(err).Warn("Bad message from portald: dropping what is held for it")
	}
	k.grant()
}

// serve returns what a daemon is told that comes.
func (k *Keeper) serve(g *client) Room {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.came++
	g.number = k.came
	g.granted = max(0, k.Limit-k.descriptors)
	k.served = append(k.served, g)
	return Room{Files: g.granted, Settles: true}
}

// leave ends the service of a daemon, and returns how much it had given, and how many connections it had claimed. The
// claimed ones are left to the next daemon, and if this one has died, those that it had given too: at each moment each
// belongs to one daemon.
func (k *Keeper) leave(g *client, died bool) (conns, listeners, claimed int) {
	k.mu.Lock()
	conns, listeners = len(g.conns), len(g.sockets)
	for _, s := range g.claimed {
		claimed += len(s.conns)
	}
	k.served = slices.DeleteFunc(k.served, func(o *client) bool { return o == g })
	all, gone := g.claimed, []*store{g.store}
	if died && conns+listeners > 0 {
		all, gone = append(all, g.store), nil
	}
	gone = append(gone, k.leaveBehind(all)...)
	k.mu.Unlock()
	k.drop(gone...)
	return conns, listeners, claimed
}

// carries notes that a daemon carries the connections of others, or its own. The stores that these have left are
// outdated.
func (k *Keeper) carries(g *client, instances ...string) {
	k.mu.Lock()
	g.carries = append(g.carries, instances...)
	var outdated []*store
	k.left = slices.DeleteFunc(k.left, func(s *store) bool {
		is := g.outdates(s)
		if is {
			outdated = append(outdated, s)
		}
		return is
	})
	k.mu.Unlock()
	k.drop(outdated...)
}

// grant tells the newest daemon how many more descriptors it may have kept by now than it knows: what others had, or
// left, is closed.
func (k *Keeper) grant() {
	k.mu.Lock()
	var more int
	var g *client
	if n := len(k.served); n > 0 {
		g = k.served[n-1]
		others := k.descriptors - g.size()
		more = k.Limit - others - g.granted
		g.granted += max(0, more)
	}
	k.mu.Unlock()
	if more > 0 {
		_ = g.c.send(welcome, Room{Files: more}) // or it is dead
	}
}

// awaitDeaths waits until nothing is kept for other daemons, or they live on: the successor of one that has died may
// connect before the keeper learns of the death. A daemon that has given nothing, and is about to give nothing, is not
// waited for.
func (k *Keeper) awaitDeaths(g *client) {
	for until, quiet := time.Now().Add(deathNoticeTime), 0; quiet < idlePolls && time.Now().Before(until); {
		alone, pending := k.others(g)
		if alone {
			return
		}
		if quiet++; pending {
			quiet = 0
		}
		time.Sleep(time.Millisecond)
	}
}

// others tells whether no other daemon is served, and whether anything is kept for one, or is in its socket's queue.
func (k *Keeper) others(g *client) (alone, pending bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	alone = true
	for _, o := range k.served {
		if o != g {
			alone, pending = false, pending || o.size() > 0 || o.c.pending()
		}
	}
	return alone, pending
}

// serves tells whether a daemon of that Instance has a connection.
func (k *Keeper) serves(instance string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return instance != "" && slices.ContainsFunc(k.served, func(g *client) bool { return g.instance == instance })
}

// deathNoticeTime is more than it takes to learn that a daemon has died whose successor is connected already. idlePolls
// is how many polls in a row must find nothing of a daemon that has given nothing: its message may have been read and
// not yet handled.
const (
	deathNoticeTime = time.Second
	idlePolls       = 10
)

var errBye = errors.New("bye")

// take does what a message says. Only Kept has descriptors.
func (k *Keeper) take(g *client, message []byte, files []int) error {
	m := kind(message[0])
	if m != keeps {
		closeAll(files)
	}
	switch m {
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
		if kept.Memory { // it begins to give what it has, and has lost its last connection
			k.carries(g, g.instance)
		}
		k.close(k.add(g.store, &kept, files))
		return nil
	case drops:
		var d Dropped
		if err := decode(message, &d); err != nil {
			return err
		}
		k.close(k.remove(g.store, &d))
		return nil
	case claim:
		var c Claim
		if len(message) > 1 { // an older daemon says nothing
			if err := decode(message, &c); err != nil {
				return err
			}
		}
		return k.pass(g, c.Of)
	case settles:
		var s Settled
		if err := decode(message, &s); err != nil {
			return err
		}
		k.close(k.settle(g, &s))
		return nil
	case ping:
		return g.c.send(welcome, Room{Settles: true})
	case bye:
		return errBye
	default:
		return fmt.Errorf("%w %s", ErrUnexpected, m)
	}
}

// add, remove and settle change stores, and return the descriptors that are to be closed.
func (k *Keeper) add(s *store, kept *Kept, files []int) (old []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.descriptors += len(files)
	return s.add(kept, files)
}

func (k *Keeper) remove(s *store, d *Dropped) (old []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.remove(d)
}

func (k *Keeper) settle(g *client, what *Settled) (old []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if what.Store >= 0 && what.Store < len(g.claimed) {
		old = g.claimed[what.Store].remove(&Dropped{Slots: what.Slots, Pipes: what.Pipes})
	}
	if what.All {
		for _, s := range g.claimed {
			g.take(s)
			old = append(old, s.clear()...)
		}
		g.claimed = nil
	}
	return old
}

func (k *Keeper) close(files []int) {
	closeAll(files)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.descriptors -= len(files)
}

// leaveBehind keeps what daemons have left, until its time is over. It returns what is outdated. It is called with mu
// held.
func (k *Keeper) leaveBehind(all []*store) (outdated []*store) {
	for _, s := range all {
		if slices.ContainsFunc(k.served, func(g *client) bool { return g.outdates(s) }) {
			outdated = append(outdated, s)
			continue
		}
		if s.until.IsZero() {
			s.until = time.Now().Add(k.For)
		}
		k.left = append(k.left, s)
		time.AfterFunc(time.Until(s.until), func() { k.expire(s) })
	}
	slices.SortFunc(k.left, func(a, b *store) int { return cmp.Compare(a.number, b.number) })
	return outdated
}

// expire resets what nobody has come for.
func (k *Keeper) expire(s *store) {
	if k.adopt(s) {
		k.Log.Warnf("No portald came within %s: resetting %d connections", k.For, k.reset(s))
		k.drop(s)
		k.grant()
	}
}

// abandon resets what daemons have left that have died: nobody comes for it any more, and clients would take a close
// for the end of a stream. While a daemon lives it may have them too.
func (k *Keeper) abandon() {
	k.mu.Lock()
	left, alone := slices.Clone(k.left), len(k.served) == 0
	k.mu.Unlock()
	for _, s := range left {
		if alone && k.adopt(s) {
			k.Log.Warnf("The keeper ends: resetting %d connections of a portald that died", k.reset(s))
			k.drop(s)
		}
	}
}

// reset resets the connections of a store, and returns how many. Connections of a daemon that lives are left out: it
// took them over just before the other one died.
func (k *Keeper) reset(s *store) (n int) {
	live := map[uint64]bool{}
	k.mu.Lock()
	for _, g := range k.served {
		for _, o := range append(slices.Clone(g.claimed), g.store) {
			for _, c := range o.conns {
				live[platform.SocketID(c.files[0])] = true
			}
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

// adopt takes a store from those that are left. False: it is not there any more.
func (k *Keeper) adopt(s *store) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := slices.Index(k.left, s)
	if at >= 0 {
		k.left = slices.Delete(k.left, at, at+1)
	}
	return at >= 0
}

// claim gives a daemon the newest of what is left; nil: nothing is.
func (k *Keeper) claim(g *client) *store {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.left)
	if n == 0 {
		return nil
	}
	s := k.left[n-1]
	k.left = k.left[:n-1]
	g.granted += s.size()
	g.claimed = append(g.claimed, s)
	return s
}

func (k *Keeper) drop(all ...*store) {
	for _, s := range all {
		k.mu.Lock()
		files := s.clear()
		k.mu.Unlock()
		k.close(files)
	}
}

// pass passes the newest of what was left to a daemon. It is kept until the daemon has settled it: if that dies before,
// the next one may claim it. Nothing is passed while one that is known to be dead still has a connection.
func (k *Keeper) pass(g *client, dead string) error {
	if len(g.claimed) == 0 || k.serves(dead) {
		k.awaitDeaths(g)
	}
	if k.serves(dead) {
		return g.c.send(done, Done{Open: true})
	}
	s := k.claim(g)
	if s == nil {
		return g.c.send(done, Done{})
	}
	kept, files := s.kept()
	err := kept.inMessages(files, g.c.most, func(some Kept, files []int) error {
		return g.c.send(keeps, some, files...)
	}, func(uint32) {}) // nothing is larger than when it came
	if err == nil {
		err = g.c.send(done, Done{Left: int64(len(s.conns)), Of: s.instance})
	}
	if err == nil && !g.settles {
		k.pop(g)
		k.grant()
	}
	return err
}

// pop drops what was passed to a daemon that says no more of it, and does not count it as kept for that.
func (k *Keeper) pop(g *client) {
	k.mu.Lock()
	all := g.claimed
	g.claimed = nil
	for _, s := range all {
		g.granted -= s.size()
	}
	k.mu.Unlock()
	k.drop(all...)
}
