package epoll

import "golang.org/x/sys/unix"

// remains delivers the rest of one flow of a connection that has ended: see splice.Step.Deliver.
type remains struct {
	wanted bool  // else it is read and discarded, so that a peer goes on that sends before it reads
	until  int64 // how far it is read
	ended  bool  // the source's FIN came behind that, before its reset
}

// remainsOf begins to deliver a flow, or to discard it. ended: the source's stream had ended before it failed.
func remainsOf(f *flow, s *stock, wanted bool, src *socket, ended bool) remains {
	src.readable = true
	f.replay = nil
	if !wanted {
		f.drop(s)
		return remains{}
	}
	r := remains{wanted: true, until: f.carried, ended: (ended || f.fin) && !f.eof}
	if !f.eof {
		r.until += int64(sysUnread(src.fd))
	}
	return r
}

// over tells whether nothing is left of the flow here.
func (r *remains) over(p progress) bool { return !r.wanted || p == atEOF }

// unacknowledged counts the bytes of a flow in the send queue of its destination.
func (r *remains) unacknowledged(dst *socket) int64 {
	if !r.wanted {
		return 0
	}
	return int64(sysUnacknowledged(dst.fd))
}

// move carries the rest, and returns atEOF once the destination's socket has all of it.
func (r *remains) move(s *stock, f *flow, src, dst *socket) progress {
	switch {
	case !r.wanted:
		return discardFlow(s, f, src)
	case dst.failed:
		return destinationFailed
	case f.carried < r.until:
		p, _ := f.carry(s, src, dst)
		switch {
		case p == destinationFailed:
			return p
		case p == more || p == spliced:
			return more
		case p == sourceFailed || p == atEOF || !src.readable: // it had fewer than it told
			r.until = f.carried
		}
	case !f.empty() && dst.writable:
		if f.flush(s, dst, &f.passed) != 0 {
			return destinationFailed
		}
	}
	if !f.empty() || f.carried < r.until {
		return blocked
	}
	if r.ended {
		r.ended = false
		dst.end()
	}
	return atEOF
}

// discardFlow reads what nobody is left for.
func discardFlow(s *stock, f *flow, src *socket) progress {
	for most := f.carried + quantum; src.readable; {
		if f.carried >= most {
			return more
		}
		n, e := sysDiscard(src.fd, s.scratch[:])
		switch {
		case e != 0 && e != unix.EAGAIN:
			return destinationFailed // it is the source of the other flow
		case n == 0:
			src.readable = false
		}
		f.carried += int64(n)
	}
	return blocked
}
