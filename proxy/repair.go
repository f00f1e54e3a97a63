package proxy

import (
	"time"

	"github.com/portald/portald/platform/backoff"
)

// Damage reports a change of the host's rules by another program, as an audit found it.
type Damage struct {
	Err   error
	Times int           // it was found, without quiet in between; 1: the first time
	Wait  time.Duration // until everything is applied again
}

// repairs paces what is done about others that change the host's rules: their first change is made good at once, and a
// program that does it again and again does not get an adversary that never rests.
type repairs struct {
	audit      time.Time     // not before is a sign followed up
	lastDamage time.Time     // the last damage
	mended     time.Time     // when everything was last applied because of damage
	took       time.Duration // to apply it
	times      int           // without quiet in between
	waiting    bool          // for the repair
}

const (
	// signShare and repairShare bound the time that audits take which others prompt, and repairs from the third on: one
	// part in so many.
	signShare, repairShare = 20, 10
	// firstPause is between the first two repairs, and the next two. Then it doubles up to the last.
	firstPause = time.Second
	lastPause  = 30 * time.Second
	// quiet is how long nothing may be found until damage is a first one again: so long, or twice the last pause.
	quiet = 10 * time.Second
)

// follow tells whether to audit because of a sign.
func (r *repairs) follow(now time.Time) bool { return !r.waiting && !now.Before(r.audit) }

// audited takes in that an audit ended now, and how long it took.
func (r *repairs) audited(now time.Time, took time.Duration) {
	r.audit = now.Add((signShare - 1) * took)
}

// damaged takes in that damage was found, and returns how often without quiet, and how long to wait with the repair.
func (r *repairs) damaged(now time.Time) (times int, wait time.Duration) {
	if now.Sub(r.lastDamage) >= max(quiet, 2*r.pause()) {
		r.times = 0
	}
	r.lastDamage = now
	r.times++
	r.waiting = true
	if r.times == 1 {
		return 1, 0
	}
	return r.times, max(0, r.mended.Add(r.pause()).Sub(now))
}

// pause is that between the last repair and the next.
func (r *repairs) pause() time.Duration {
	p := backoff.Pause{First: firstPause, Last: lastPause}.After(r.times - 2)
	if r.times < 3 {
		return p
	}
	return max(p, (repairShare-1)*r.took)
}

// repaired takes in that everything was applied, and how long that took.
func (r *repairs) repaired(now time.Time, took time.Duration) {
	if r.waiting {
		r.waiting, r.mended, r.took = false, now, took
	}
}
