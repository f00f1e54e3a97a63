package succession

import (
	"context"
	"os"
	"sync"
	"sync/atomic"

	"github.com/portald/portald/proxy/succession/handover"
)

// State says who serves the node: a predecessor, this daemon, or a successor. Safe for concurrent use.
type State struct {
	Inherited *Inherited

	socket       string        // of the hand-over; empty: there is none
	rulesAllowed chan struct{} // closed: rules may be written
	serves       chan struct{} // closed: this daemon serves the node, alone
	other        atomic.Bool   // another daemon does, or may: rules are not this one's to remove

	has      atomic.Bool // something was passed on: rules may stand too
	replaces atomic.Bool // a predecessor still listens at the admin socket
	stored   atomic.Bool // the other daemon has ended, and left what it had
	awaited  atomic.Bool // the other daemon starts once this one has ended

	handing  chan struct{} // who hands over, or changes what there is to hand over, has put its one element in
	draining bool          // guarded by handing: this daemon is ending, rules no longer lead to it

	mu   sync.Mutex
	lock *os.File // guarded by mu: the lock of the node, nil for none
}

// NewState returns the State of a daemon that hands over at that socket, before it knows of any other.
func NewState(socket string) *State {
	s := &State{
		Inherited: newInherited(), socket: socket, rulesAllowed: make(chan struct{}), serves: make(chan struct{}),
		handing: make(chan struct{}, 1),
	}
	s.other.Store(true) // until this daemon knows better
	return s
}

// add takes what a predecessor has passed on.
func (s *State) add(e *handover.Inheritance) {
	s.has.Store(true)
	if lock := s.Inherited.add(e); lock != nil {
		s.locked(lock)
	}
}

// TakeTurn waits until a hand-over that is under way has ended, and keeps others from beginning until EndTurn.
func (s *State) TakeTurn() { s.handing <- struct{}{} }

// EndTurn ends that.
func (s *State) EndTurn() { <-s.handing }

// RulesAllowed is closed once rules may be written: there is no predecessor, or this daemon has its listeners.
func (s *State) RulesAllowed() <-chan struct{} { return s.rulesAllowed }

// OtherServes tells whether another daemon serves the node, or may: rules are not this one's to remove.
func (s *State) OtherServes() bool { return s.other.Load() }

// HasRules tells whether the rules of a predecessor may stand.
func (s *State) HasRules() bool { return s.has.Load() }

// Replaces tells whether a predecessor still listens at the admin socket.
func (s *State) Replaces() bool { return s.replaces.Load() }

// SuccessorWaits tells whether the next daemon starts once this one has ended.
func (s *State) SuccessorWaits() bool { return s.awaited.Load() }

// NoticeOusted looks whether another daemon has taken the place of this one, and returns OtherServes.
func (s *State) NoticeOusted() bool {
	if s.isOusted() {
		s.other.Store(true)
	}
	return s.OtherServes()
}

// Drains notes that this daemon is ending, and that rules no longer lead to it. The caller has the turn.
func (s *State) Drains() { s.draining = true }

// AnotherAnswers tells whether another daemon listens for successors here. This one does not any more.
func (s *State) AnotherAnswers() bool { return s.socket != "" && answers(s.socket) }

// AnotherHasLock tells whether another daemon has the lock of the node, as one that serves it and cannot listen for
// successors. This one has given it up.
func (s *State) AnotherHasLock() bool { return s.socket != "" && lockHeld(s.socket) }

// Begin is called where there is no predecessor.
func (s *State) Begin() {
	close(s.rulesAllowed)
	s.serve()
}

// mayWriteRules tells whether this daemon has the listeners of its predecessor, or there is no predecessor.
func (s *State) mayWriteRules() bool {
	select {
	case <-s.rulesAllowed:
		return true
	default:
		return false
	}
}

// abandon is called where this daemon is the last: what it has not taken of a store ends.
func (s *State) abandon() {
	if s.stored.Load() {
		s.other.Store(false)
	}
}

// locked is called with the lock of the node, which this daemon has until it ends or release is called.
func (s *State) locked(lock *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lock = lock
}

// release gives up the lock of the node: another daemon has it too.
func (s *State) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.lock.Close() // it is open, or nil
	s.lock = nil
}

// isOusted tells whether another daemon has begun to serve the node while this one stood still. It costs a system call.
func (s *State) isOusted() bool {
	lock := s.nodeLock()
	return lock != nil && ousted(s.socket, lock)
}

// nodeLock returns the lock of the node, nil for none.
func (s *State) nodeLock() *os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock
}

// serve is called once this daemon alone serves the node. Sockets that nobody has taken are closed.
func (s *State) serve() {
	s.Inherited.settle()
	s.stored.Store(false)
	s.other.Store(false)
	close(s.serves)
}

// WhenServing waits until this daemon serves the node. False: ctx has ended first.
func (s *State) WhenServing(ctx context.Context) bool {
	select {
	case <-s.serves:
		return true
	case <-ctx.Done():
		return false
	}
}

// AfterTakeover has a run wait until this daemon serves the node.
func (s *State) AfterTakeover(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !s.WhenServing(ctx) {
			return nil
		}
		return run(ctx)
	}
}
