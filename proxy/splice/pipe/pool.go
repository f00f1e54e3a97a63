// Package pipe moves bytes from one TCP socket to another without a copy, within the pipes' budget of quota.Account.
// Both engines use it. Only Linux has such pipes; elsewhere, and where the budget is used up, engines copy.
package pipe

import (
	"errors"
	"time"

	"github.com/portald/portald/proxy/quota"
)

// ErrShare means that the account has no share of pipes left.
var ErrShare = errors.New("the share of pipes is used up")

// Idle is how long a pipe is kept that is of no use, and how long none is made after the kernel had no room for one.
const Idle = time.Second

// kept bounds the idle pipes of a pool: two descriptors each.
const kept = 32

// Use is whether a pipe may be used.
type Use uint8

// A pipe may be used now, or some time later, or never.
const (
	Now Use = iota
	Later
	Never
)

// fresh bounds the pipes of a pool that are not to be used yet.
const fresh = 16

// Pool keeps empty pipes for the next load. It has no lock: one goroutine at a time may use it.
type Pool struct {
	Account *quota.Account
	Opened  func(Pipe)     // called for each pipe that is made; nil: nothing is
	Closed  func(Pipe)     // called before each is closed
	Usable  func(Pipe) Use // nil: each is at once

	free   []Pipe
	fresh  []Pipe        // that are not to be used yet
	unused int           // how many of free were not needed since Expire was called
	retry  time.Duration // when to try to make a pipe again
	armed  bool          // Expire will be called
}

// Take returns an empty pipe, false if there can be none now. If expire is true, the caller has Expire called after
// Idle.
func (p *Pool) Take(now time.Duration) (got Pipe, ok, expire bool) {
	for n := len(p.free); n > 0; n = len(p.free) {
		q := p.free[n-1]
		p.free = p.free[:n-1]
		p.unused = min(p.unused, n-1)
		if p.mayUse(q) {
			return q, true, false
		}
	}
	waiting := p.fresh
	p.fresh = nil
	for i, q := range waiting {
		if p.mayUse(q) {
			p.fresh = append(p.fresh, waiting[i+1:]...)
			return q, true, false
		}
	}
	if now < p.retry || len(p.fresh) >= fresh {
		return Pipe{}, false, false
	}
	q, err := Open(p.Account)
	if err != nil && !errors.Is(err, ErrShare) {
		p.retry = now + Idle
	}
	if err != nil {
		return Pipe{}, false, false
	}
	if p.Opened != nil {
		p.Opened(q)
	}
	if p.mayUse(q) {
		return q, true, false
	}
	return Pipe{}, false, p.arm()
}

// mayUse tells whether a pipe may be used. One that may not is kept until it may be, or closed.
func (p *Pool) mayUse(q Pipe) bool {
	if p.Usable == nil {
		return true
	}
	switch p.Usable(q) {
	case Now:
		return true
	case Later:
		p.fresh = append(p.fresh, q)
	case Never:
		p.Discard(q)
	}
	return false
}

// arm tells whether the caller has to have Expire called.
func (p *Pool) arm() bool {
	was := p.armed
	p.armed = true
	return !was
}

// Give takes an empty pipe back. If it returns true, the caller has Expire called after Idle.
func (p *Pool) Give(q Pipe) (expire bool) {
	if len(p.free) == kept {
		p.Discard(q)
		return false
	}
	p.free = append(p.free, q)
	if !p.armed {
		p.unused = len(p.free)
	}
	return p.arm()
}

// Expire closes the pipes that were not needed for a while: the kernel limits the pages of all pipes of a user. If it
// returns true, the caller has it called again after Idle.
func (p *Pool) Expire() (again bool) {
	for _, q := range p.free[:p.unused] {
		p.Discard(q)
	}
	p.free = append(p.free[:0], p.free[p.unused:]...)
	p.free, p.fresh = append(p.free, p.fresh...), nil // Take calls mayUse again
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

// Close closes the idle pipes.
func (p *Pool) Close() {
	for _, q := range append(p.free, p.fresh...) {
		p.Discard(q)
	}
	p.free, p.fresh, p.unused = nil, nil, 0
}
