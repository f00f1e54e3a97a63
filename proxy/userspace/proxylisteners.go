package userspace

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/portal"
)

// proxyListeners has fronts listen at proxy ports, and keeps a port for a while to which portals redirected until just
// now.
type proxyListeners struct {
	ports     *proxyPorts
	sockets   *sockets
	linger    time.Duration
	lingering map[*front]time.Time // fronts whose proxy port closes at that time
	sharers   atomic.Int64         // fronts that share one
}

// open takes a free proxy port, the one that is claimed if possible, and has a front listen there.
func (l *proxyListeners) open(f *front, claimed uint16) error {
	port, err := l.ports.take(f.key, claimed, func(port uint16) (retry bool, err error) {
		err = l.sockets.listen(f, f.proxyAddress(port))
		return errors.Is(err, syscall.EADDRINUSE), err
	})
	if err != nil {
		return fmt.Errorf("serve %s: %w", f.key.name, err)
	}
	f.port = port
	return nil
}

// share has a front redirect to the listener of another, which is there to be shared.
func (l *proxyListeners) share(f, with *front) {
	f.port = with.port
	f.shares.Store(with)
	with.sharers, with.inUse = with.sharers+1, true
	l.sharers.Add(1)
	l.reuse(with)
}

// unshare ends that. The listener closes in a while if no front shares it any more.
func (l *proxyListeners) unshare(f *front) {
	with := f.shares.Swap(nil)
	f.port = 0
	l.sharers.Add(-1)
	if with.sharers--; with.sharers == 0 {
		l.leave(with)
	}
}

// reuse ends the lingering of a port that portals redirect to again.
func (l *proxyListeners) reuse(f *front) { delete(l.lingering, f) }

// leave has a port close in a while: no portal redirects there any more.
func (l *proxyListeners) leave(f *front) {
	if _, lingers := l.lingering[f]; f.port != 0 && !lingers {
		f.inUse, l.lingering[f] = false, time.Now().Add(l.linger)
	}
}

// close ends listening at a proxy port.
func (l *proxyListeners) close(f *front) {
	if f.port != 0 && f.shares.Load() == nil {
		f.Unlisten(f.proxyAddress(f.port))
	}
	l.forget(f)
}

// forget is called when a front has closed.
func (l *proxyListeners) forget(f *front) {
	delete(l.lingering, f)
	switch {
	case f.port == 0:
	case f.shares.Load() != nil:
		l.unshare(f)
	default:
		l.release(f)
	}
}

func (l *proxyListeners) release(f *front) {
	l.sockets.closes(f, f.proxyAddress(f.port))
	l.ports.release(f.key, f.port)
	f.port = 0
}

// withdraw has the port of a front reported as closed although the front goes on listening.
func (l *proxyListeners) withdraw(f *front) {
	if f.port != 0 && f.shares.Load() == nil {
		l.ports.changed[f.key.proxyPort(f.port)] = false
		f.SetGuarded(false)
	}
}

// changes returns the ports that were opened (true) and closed since the last call.
func (l *proxyListeners) changes() map[portal.ProxyPort]bool { return l.ports.changes() }

// sweep closes the ports that have lingered long enough, and returns their fronts and when the next is due.
func (l *proxyListeners) sweep(now time.Time) (closed []*front, next time.Time) {
	for f, until := range l.lingering {
		if !now.Before(until) {
			l.close(f)
			closed = append(closed, f)
		} else {
			next = earlier(next, until)
		}
	}
	return closed, next
}
