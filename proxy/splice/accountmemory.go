package splice

// MaxPipePages is the size of a pipe while few are held, in pages of memory. When many are held new ones are smaller.
const MaxPipePages = 256

const minPipePages = 16

// TakePipe takes two descriptors and some pages of memory for a pipe, none where connections need them or the pages are
// used up: a pipe only saves work.
func (a *Account) TakePipe() (pages int64, ok bool) {
	left := int64(a.budget.PipePages) - a.pages.Load()
	for pages = MaxPipePages; pages > minPipePages && pages*8 > left; pages /= 2 {
	}
	most := a.most[descriptors]
	switch {
	case a.pages.Add(pages) > int64(a.budget.PipePages):
	case most > 0 && a.used[descriptors].Load() > most/4*3:
	case a.Open(2) != nil:
	default:
		a.pipes.Add(1)
		return pages, true
	}
	a.pages.Add(-pages)
	return 0, false
}

// KeepPipe takes a pipe of so many pages that exists already.
func (a *Account) KeepPipe(pages int64) {
	a.pages.Add(pages)
	a.used[descriptors].Add(2)
	a.pipes.Add(1)
}

// ResizePipe corrects what TakePipe took by so many pages: those that the kernel granted in the end.
func (a *Account) ResizePipe(by int64) { a.pages.Add(by) }

// GivePipe gives back a pipe of so many pages.
func (a *Account) GivePipe(pages int64) {
	a.pages.Add(-pages)
	a.Close(2)
	a.pipes.Add(-1)
}

// BuffersExhausted tells whether as many buffers hold bytes as may.
func (a *Account) BuffersExhausted() bool { return a.buffers.Load() >= int64(a.budget.Buffers) }

// TakeBuffer counts a buffer that holds bytes, until GiveBuffer. It may be one more than there may be.
func (a *Account) TakeBuffer() { a.buffers.Add(1) }

// GiveBuffer ends what TakeBuffer began.
func (a *Account) GiveBuffer() { a.buffers.Add(-1) }
