package quota

import "sync/atomic"

// MaxPipePages is the size of a pipe while few are in use, in pages of memory. When many are, new ones are smaller.
const MaxPipePages = 256

const minPipePages = 16

// Pipes counts the pipes of an Account, which take descriptors, and the pages of memory that they may fill. Safe for
// concurrent use.
type Pipes struct {
	account *Account
	most    int64
	pages   atomic.Int64
	n       atomic.Int64
}

// Take takes two descriptors and some pages of memory for a pipe. False: connections need the descriptors, or the pages
// are used up. A pipe only saves work.
func (p *Pipes) Take() (pages int64, ok bool) {
	left := p.most - p.pages.Load()
	for pages = MaxPipePages; pages > minPipePages && pages*8 > left; pages /= 2 {
	}
	most := p.account.most[Descriptors]
	switch {
	case p.pages.Add(pages) > p.most:
	case most > 0 && p.account.used[Descriptors].Load() > most/4*3:
	case p.account.Open(2) != nil:
	default:
		p.n.Add(1)
		return pages, true
	}
	p.pages.Add(-pages)
	return 0, false
}

// Adopt takes a pipe of so many pages that exists already, whatever is left.
func (p *Pipes) Adopt(pages int64) {
	p.pages.Add(pages)
	p.account.used[Descriptors].Add(2)
	p.n.Add(1)
}

// Resize corrects what Take took by so many pages, to those that the kernel granted.
func (p *Pipes) Resize(by int64) { p.pages.Add(by) }

// Give gives back a pipe of so many pages.
func (p *Pipes) Give(pages int64) {
	p.pages.Add(-pages)
	p.account.Close(2)
	p.n.Add(-1)
}

// Len is how many pipes are taken.
func (p *Pipes) Len() int64 { return p.n.Load() }

// Pages is how many pages all of them may fill.
func (p *Pipes) Pages() int64 { return p.pages.Load() }

// Most is how many pages there are.
func (p *Pipes) Most() int64 { return p.most }

// Buffers counts buffers of 64 KiB that hold bytes which a peer does not take. Safe for concurrent use.
type Buffers struct {
	n    atomic.Int64 // looked at for each load that is copied
	most int64
}

// Exhausted tells whether as many buffers hold bytes as may.
func (b *Buffers) Exhausted() bool { return b.n.Load() >= b.most }

// Take counts a buffer that holds bytes, until Give. It may be one more than there may be.
func (b *Buffers) Take() { b.n.Add(1) }

// Give ends what Take began.
func (b *Buffers) Give() { b.n.Add(-1) }

// Len returns how many are in use.
func (b *Buffers) Len() int64 { return b.n.Load() }

// Most is how many may.
func (b *Buffers) Most() int64 { return b.most }
