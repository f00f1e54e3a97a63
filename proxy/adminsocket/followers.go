package adminsocket

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxFollowers bounds how many clients follow records at a time: each has the CPU write every record that it wants.
const maxFollowers = 16

// stuckAfter is how long a client has not read when it loses its place to another: a terminal may be stopped for a
// while, and a command may have been left behind by a session that is gone.
const stuckAfter = 10 * time.Second

var errTooMany = fmt.Errorf("%d clients follow the records already, or half as many at the address of the metrics: "+
	"end one of them", maxFollowers)

// followers are the clients that follow records. Safe for concurrent use.
type followers struct {
	most    int   // places
	tooMany error // to a client for which there is none
	mu      sync.Mutex
	all     []*stream // guarded by mu
}

// enter gives a client a place, perhaps from the client which has not read for the longest time. Clients by TCP may be
// anybody on the host: half of the places are left to clients of the socket, and none of these is cut for them.
func (f *followers) enter(s *stream) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := f.most
	if s.byTCP {
		most /= 2
	}
	if len(f.all) >= most && !f.cutStuck(s.byTCP, time.Now()) {
		return statusError{f.tooMany, http.StatusServiceUnavailable}
	}
	f.all = append(f.all, s)
	return nil
}

// cutStuck is called with mu held.
func (f *followers) cutStuck(byTCP bool, now time.Time) bool {
	longest, oldest := now.Add(-stuckAfter).UnixNano(), -1
	for i, s := range f.all {
		if since := s.waits.Load(); since != 0 && since <= longest && (s.byTCP || !byTCP) {
			longest, oldest = since, i
		}
	}
	if oldest < 0 {
		return false
	}
	f.all[oldest].cut()
	f.all = slices.Delete(f.all, oldest, oldest+1)
	return true
}

func (f *followers) leave(s *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = slices.DeleteFunc(f.all, func(other *stream) bool { return other == s })
}

// slowest is how long a client of a stream may leave it unread.
const slowest = time.Hour

// stream writes to one client, and gives it up when it does not read for slowest, or is cut.
type stream struct {
	http.ResponseWriter
	connection *http.ResponseController
	byTCP      bool
	waits      atomic.Int64 // since when a write has waited for the client, in ns of Unix time; 0: none does
	isCut      atomic.Bool
}

// lines begins an answer of a JSON object a line. One that goes on takes a place until leave.
func (h *Handler) lines(w http.ResponseWriter, r *http.Request, follow bool) (to *stream, leave func(), err error) {
	to, leave = newStream(w, r), func() {}
	if follow {
		if err := h.followers.enter(to); err != nil {
			return nil, nil, err
		}
		leave = func() { h.followers.leave(to) }
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	return to, leave, nil
}

func newStream(w http.ResponseWriter, r *http.Request) *stream {
	return &stream{ResponseWriter: w, connection: http.NewResponseController(w), byTCP: isByTCP(r)}
}

// isByTCP tells whether a client is one of TCP, and not of the socket.
func isByTCP(r *http.Request) bool {
	_, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil
}

// Write implements io.Writer.
func (s *stream) Write(text []byte) (int, error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	defer s.waits.Store(0)
	return s.ResponseWriter.Write(text)
}

// flush sends what was written.
func (s *stream) flush() error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.waits.Store(0)
	return s.connection.Flush()
}

func (s *stream) begin() error {
	s.waits.Store(time.Now().UnixNano())
	if err := s.connection.SetWriteDeadline(time.Now().Add(slowest)); err != nil {
		return err
	}
	if s.isCut.Load() { // cut sets its deadline after that
		return errTooMany
	}
	return nil
}

// cut ends the stream.
func (s *stream) cut() {
	s.isCut.Store(true)
	_ = s.connection.SetWriteDeadline(time.Now()) // the write under way fails
}
