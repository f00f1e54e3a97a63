package load

import (
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// sayEvery is how often a UDP session sends a datagram.
const sayEvery = 50 * time.Millisecond

// window is how many datagrams a session has under way: 3.2 s, after which they are lost.
const window = 64

// session is a UDP session whose datagrams are numbered.
type session struct {
	fd     int
	client string
	next   uint64 // number
	newest uint64 // that was answered, and 1
	said   [window]saying
}

// saying is a datagram that was sent.
type saying struct {
	at    time.Time
	spell int
	heard bool
}

func (r *client) openSessions() error {
	r.sessions = make([]session, r.Streams.Sessions)
	for i := range r.sessions {
		to, s := r.To[i%len(r.To)], &r.sessions[i]
		var err error
		if s.fd, err = unix.Socket(family(to.Addr()), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		if err := unix.Connect(s.fd, sockaddr(to)); err != nil {
			return fmt.Errorf("connect by UDP to %s: %w", to, err)
		}
		s.client = localAddr(s.fd).String()
		if err := r.poll.add(s.fd, i|ofSession, unix.EPOLLIN|unix.EPOLLET); err != nil {
			return err
		}
		r.ticks.in(time.Duration(i%int(sayEvery.Milliseconds()))*time.Millisecond, i|ofSession)
	}
	return nil
}

// say sends the next datagram of a session.
func (r *client) say(i int) {
	if r.stopping {
		return
	}
	r.ticks.in(sayEvery, i|ofSession)
	s := &r.sessions[i]
	slot := &s.said[s.next%window]
	if s.next >= window {
		r.count(slot)
	}
	*slot = saying{at: time.Now(), spell: len(r.spells) - 1}
	var datagram [Size]byte
	binary.BigEndian.PutUint32(datagram[:], uint32(i))
	binary.BigEndian.PutUint64(datagram[4:], s.next)
	s.next++
	_, _ = send(s.fd, datagram[:]) // an error of an earlier one: this one is lost too
}

// count counts a datagram that nothing more is to be heard of.
func (r *client) count(s *saying) {
	if !s.heard {
		r.spells[s.spell].Lost++
	}
}

// hear takes what was answered.
func (r *client) hear(i int) {
	s := &r.sessions[i]
	for {
		n, err := read(s.fd, r.buf[:])
		if err == unix.EAGAIN {
			return
		}
		if err != nil {
			continue // what an ICMP message said of an earlier one
		}
		session, number := int(binary.BigEndian.Uint32(r.buf[:])), binary.BigEndian.Uint64(r.buf[4:])
		if n != Size || session != i || number >= s.next {
			r.now().Misplaced++
			r.fresh.failed = append(r.fresh.failed, fmt.Sprintf("%s got %d bytes, number %d of session %d, want %d",
				s.client, n, number, session, i))
			continue
		}
		slot := &s.said[number%window]
		switch {
		case number+window < s.next: // counted as lost
			r.now().Misplaced++
			continue
		case slot.heard:
			r.spells[slot.spell].Doubled++
			continue
		case number+1 < s.newest:
			r.spells[slot.spell].Misplaced++
		}
		slot.heard = true
		s.newest = max(s.newest, number+1)
		r.spells[slot.spell].answers.add(time.Since(slot.at))
	}
}

// heardAll tells whether no answer is to be waited for.
func (r *client) heardAll() bool {
	for i := range r.sessions {
		s := &r.sessions[i]
		for number := s.next - min(s.next, window); number < s.next; number++ {
			if slot := &s.said[number%window]; !slot.heard && time.Since(slot.at) < window*sayEvery {
				return false
			}
		}
	}
	return true
}

// countLost counts what was not answered of the newest datagrams.
func (r *client) countLost() {
	for i := range r.sessions {
		s := &r.sessions[i]
		for number := s.next - min(s.next, window); number < s.next; number++ {
			r.count(&s.said[number%window])
		}
	}
}

func (r *client) closeSessions() {
	for i := range r.sessions {
		if fd := r.sessions[i].fd; fd > 0 {
			closeFD(fd)
		}
	}
}
