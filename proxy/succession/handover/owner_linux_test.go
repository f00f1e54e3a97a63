package handover

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// estate says who has which connection, as both sides see it.
type estate struct {
	t  *testing.T
	mu sync.Mutex // guards what follows

	kept, left, had          []bool // the predecessor goes on with it, has closed it; the successor goes on with it
	predecessor, successor   bool   // that one is alive
	predecessorKeeps, served bool   // as the sides see the end
}

func newEstate(t *testing.T, n int) *estate {
	return &estate{t: t, kept: make([]bool, n), left: make([]bool, n), had: make([]bool, n),
		predecessor: true, successor: true}
}

// note notes what a side does, unless that one has died: then nothing is done any more.
func (e *estate) note(alive *bool, of []bool, i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !*alive {
		return
	}
	of[i] = true
	if e.kept[i] && e.had[i] {
		e.t.Errorf("connection %d has two owners", i)
	}
	if e.kept[i] && e.left[i] {
		e.t.Errorf("connection %d was closed and goes on", i)
	}
}

// dies kills a side: what it does from then on does not happen, and the kernel closes its socket.
func (e *estate) dies(alive *bool, c *channel) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*alive = false
	c.close()
}

// check looks at the end: each connection has an owner, unless that one has died.
func (e *estate) check() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.kept {
		switch {
		case e.predecessor && !e.kept[i] && !e.left[i]:
			e.t.Errorf("connection %d is forgotten by the predecessor", i)
		case e.successor && e.left[i] && !e.had[i]:
			e.t.Errorf("connection %d is closed, and the successor does not have it", i)
		}
	}
}

// Whatever fails, and whenever, no connection has two owners, and none that is left by a side is without one.
func TestOneOwner(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const rounds = 300
	noLeak(t)
	shared := make([]*splice.Departure, 24)
	for i := range shared {
		shared[i] = connection(t, uint64(i))
	}
	seed := rand.Uint64()
	ends := map[[4]bool]int{}
	for round := range rounds {
		one := &trial{Rand: rand.New(rand.NewPCG(seed, uint64(round))), estate: newEstate(t, len(shared)), all: shared}
		one.run()
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
		ends[[4]bool{one.predecessor, one.successor, one.predecessorKeeps, one.served}]++
	}
	t.Logf("ends (predecessor and successor alive, either content): %v", ends)
}

// trial is one hand-over that may fail.
type trial struct {
	*rand.Rand
	*estate
	all []*splice.Departure
}

func (o *trial) run() {
	p, s := raw(o.t)
	predecessor, successor := &Successor{c: s, room: 1 << 20}, &Predecessor{c: p}
	var threads sync.WaitGroup
	stalls := [2]*rand.Rand{rand.New(rand.NewPCG(o.Uint64(), 0)), rand.New(rand.NewPCG(o.Uint64(), 1))}
	if o.IntN(3) == 0 {
		s.step = time.Duration(o.IntN(300)+1) * time.Microsecond
	}
	if o.IntN(3) == 0 {
		p.step = time.Duration(o.IntN(300)+1) * time.Microsecond
	}
	after, which, mute := time.Duration(o.IntN(1500))*time.Microsecond, o.IntN(6), o.IntN(4) == 0
	threads.Go(func() {
		time.Sleep(after)
		switch which {
		case 0:
			o.dies(&o.predecessor, s)
		case 1:
			o.dies(&o.successor, p)
		}
	})
	threads.Go(func() { o.precede(predecessor, stalls[0], mute) })
	threads.Go(func() { o.succeed(successor, stalls[1]) })
	threads.Wait()
	o.check()
	p.close()
	s.close()
}

// stall takes some time, now and then.
func stall(r *rand.Rand) {
	if r.IntN(20) == 0 {
		time.Sleep(time.Duration(r.IntN(500)) * time.Microsecond)
	}
}

// precede is the predecessor. Mute: it dies as soon as it goes on after an error.
func (o *trial) precede(s *Successor, r *rand.Rand, mute bool) {
	end := s.Close
	defer func() { end() }()
	give := s.Give(netip.AddrPort{})
	err := s.c.expect(serving, nil, longest)
	for at := 0; at < len(o.all); {
		n := min(r.IntN(3)+1, len(o.all)-at)
		some := o.all[at : at+n]
		taken := 0
		if err == nil {
			stall(r)
			taken, err = give(some)
		}
		for i := range some {
			if i < taken {
				o.note(&o.predecessor, o.left, at+i)
			} else {
				o.note(&o.predecessor, o.kept, at+i)
			}
		}
		at += n
	}
	if err == nil {
		o.predecessorKeeps = s.Done(0) == nil
	} else if mute {
		end = func() { o.dies(&o.predecessor, s.c) }
	}
}

// succeed is the successor.
func (o *trial) succeed(p *Predecessor, r *rand.Rand) {
	_, err := p.Serving(nil, Taker{
		Conn: func(s *splice.SavedConn, files []int) {
			closeAll(files)
			o.note(&o.successor, o.had, int(s.ID))
			stall(r)
		},
		Batch: func(*Batch) {},
	})
	o.served = err == nil
}
