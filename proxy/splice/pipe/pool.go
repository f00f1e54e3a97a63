// Package pipe moves bytes from one TCP socket to another without a copy, within the pipes' budget of splice.Account.
// Both engines use it. Only Linux has such pipes; elsewhere, and where the budget is used up, engines copy.
package pipe

import (
	"errors"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// ErrShare means that the account has no share of pipes left.
var ErrShare = errors.New("the share of pipes is used up")

// Idle is how long a pipe is kept that is of no use, and how long none is made after the kernel had no room for one.
const Idle = time.Second

// kept bounds the idle pipes of a pool: two descriptors each.
const kept = 32

// Pool keeps empty pipes for the next load. It has no lock: one goroutine at a time may use it.
type Pool struct {
	Account *splice.Account
	Opened  func(Pipe) // called for each pipe that is made; nil: nothing is
	Closed  func(Pipe) // called before each is closed

	free   []Pipe
	unused int           // how many of free were not needed since Expire was called
	retry  time.Duration // when to ask the kernel for a pipe again
	armed  bool          // Expire will be called
}

// Take returns an empty pipe, false if there can be none now.
func (p *Pool) Take(now time.Duration) (Pipe, bool) {
	if n := len(p.free); n > 0 {
		got := p.free[n-1]
		p.free = p.free[:n-1]
		p.unused = min(p.unused, n-1)
		return got, true
	}
	if now < p.retry {
		return Pipe{}, false
	}
	q, err := Open(p.Account)
	if err != nil && !errors.Is(err, ErrShare) {
		p.retry = now + Idle
	}
	if err == nil && p.Opened != nil {
		p.Opened(q)
	}
	return q, err == nil
}

// Give takes an empty pipe back. If it returns true, the caller has Expire called after Idle.
func (p *Pool) Give(q Pipe) (expire bool) {
	if len(p.free) == kept {
		p.Discard(q)
		return false
	}
	p.free = append(p.free, q)
	if p.armed {
		return false
	}
	p.armed, p.unused = true, len(p.free)
	return true
}

// Expire closes the pipes that were not needed for a while: the kernel limits the pages of all pipes of a user. If it
// returns true, the caller has it called again after Idle.
func (p *Pool) Expire() (again bool) {
	for _, q := range p.free[:p.unused] {
		p.Discard(q)
	}
	p.free = append(p.free[:0], p.free[p.unused:]...)
	p.unused = len(p.free)
	p.armed = p.unused > 0
	return p.armed
}

// Discard closes a pipe, with what it holds.
func (p *Pool) Discard(q Pipe) {
	if p.Closed != nil {
		p.Closed(q)
	}
	q.Close()
}

// Close closes what is idle.
func (p *Pool) Close() {
	for _, q := range p.free {
		p.Discard(q)
	}
	p.free, p.unused = nil, 0
}
