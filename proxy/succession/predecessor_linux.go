package succession

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession/handover"
	"github.com/portald/portald/proxy/userspace"
)

// predecessor hands over to a daemon that takes the place of this one.
type predecessor struct {
	*Options
	systemd notifier
}

// handOver waits for a successor, once this daemon serves the node, and hands over to it.
func (d predecessor) handOver(ctx context.Context) error {
	path := d.Socket
	if path == "" || !d.Core.Moving().CanMove() || !d.State.WhenServing(ctx) {
		return nil
	}
	l := d.listenForSuccessors(ctx, path)
	if l == nil {
		return nil
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, l.Close)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	for ctx.Err() == nil {
		s, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			d.Log.WithError(err).Warn("Refused a successor")
			_ = backoff.Sleep(ctx, time.Millisecond)
		default:
			all.Go(func() { d.handOverTo(ctx, l, s) })
		}
	}
	return nil
}

// listenAgain is how long to wait before another try to listen for successors.
const listenAgain = 5 * time.Second

// listenForSuccessors tries until it listens, or ctx ends: then it returns nil. The disk may be full for a while.
func (d predecessor) listenForSuccessors(ctx context.Context, path string) *handover.Listener {
	for failed := false; ctx.Err() == nil; _ = backoff.Sleep(ctx, listenAgain) {
		d.lockAgain(path)
		l, err := handover.Listen(path, d.Identity)
		switch {
		case err == nil && failed:
			d.Log.Info("Hand-over is on again: the next portald can find this one")
			return l
		case err == nil:
			return l
		case !failed:
			d.Log.WithError(err).Warnf("Hand-over is off: the next portald cannot find this one, and a restart "+
				"closes open connections; trying again every %s", listenAgain)
		}
		failed = true
	}
	return nil
}

// lockAgain takes the lock of the node if that could not be told at the start, and no other daemon has it.
func (d predecessor) lockAgain(path string) {
	if d.State.nodeLock() != nil {
		return
	}
	if lock, err := handover.TryLock(path); err == nil {
		d.State.locked(lock)
	}
}

// handOverTo waits until a successor is ready, and hands over to it unless another one has the turn.
func (d predecessor) handOverTo(ctx context.Context, at *handover.Listener, s *handover.Successor) {
	defer s.Close()
	d.Log.Infof("portald %s (process %d) is about to take over", s.Version, s.PID)
	switch err := s.AwaitBegin(ctx); {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, io.EOF):
		d.Log.Info("The successor ended before it took over")
		return
	default:
		d.Log.WithError(err).Warn("Refused the successor")
		return
	}
	select {
	case d.State.handing <- struct{}{}:
	default:
		_ = s.Refuse("another portald is taking over, or this one is about to end") // or it is dead
		return
	}
	if d.State.other.Load() {
		d.State.EndTurn()
		_ = s.Refuse("another portald has taken over just now") // or it is dead
		return
	}
	done := d.tryHandOver(ctx, at, s)
	d.State.EndTurn()
	if !done { // it may stand still, and write the rules that it was about to
		s.AwaitEnd(ctx)
		d.Resync(whyBack)
	}
}

// whyBack is why all rules are written again after a hand-over that failed.
const whyBack = "a successor did not take over, and may have written rules"

// tryHandOver hands over, and then has this daemon end. False: it goes on.
func (d predecessor) tryHandOver(ctx context.Context, at *handover.Listener, s *handover.Successor) bool {
	began := time.Now()
	// A daemon that is told to end now hands over first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOverTime)
	defer cancel()
	give := d.giveTo
	if d.State.draining {
		give = d.giveLeft
	}
	left, err := give(ctx, s)
	if err != nil {
		d.Log.WithError(err).Warn("The successor did not take over: this portald goes on")
		d.systemd.status(fmt.Sprintf("Serves the node; portald %s did not take over: %v", s.Version, err))
		return false
	}
	d.Log.WithField("took", time.Since(began).Round(time.Millisecond)).
		Infof("portald %s serves this node now: %d connections are left here", s.Version, left)
	d.State.other.Store(true)
	d.State.release()
	at.Leave()
	d.systemd.passOn(s)
	d.AwaitReplaced(ctx)
	d.End(ErrHandedOver)
	return true
}

// handOverTime bounds a hand-over: after that this daemon goes on.
const handOverTime = 3 * time.Minute

// firstSyncTime is how long a successor may take to write its rules, which are no others mostly. No change is applied
// meanwhile. One that stands still is not waited for: see handover.Working.
const firstSyncTime = time.Minute

// giveTo hands over all that this daemon serves. After an error it goes on with what was not acknowledged.
func (d predecessor) giveTo(ctx context.Context, s *handover.Successor) (left int64, err error) {
	if need := int(d.Core.Stats().Descriptors); need > s.Room() {
		why := fmt.Errorf("portald %s may open %d descriptors for connections and listeners, and there are %d: raise "+
			"its limit of open files", s.Version, s.Room(), need)
		return 0, errors.Join(why, s.Refuse(why.Error()))
	}
	thaw, err := d.Freeze(ctx)
	if err != nil {
		return 0, errors.Join(err, s.Refuse("a sync takes too long"))
	}
	defer func() {
		if err != nil {
			d.Listeners.Fronts().Resume()
			d.Core.Moving().Remain()
			thaw()
			d.Resync(whyBack)
		}
	}()
	d.Queued() // whatever changes from now on waits
	sockets, others, err := d.giveSockets(s)
	if err != nil {
		return 0, err
	}
	frozen := time.Now()
	if err := s.Turns(turns(d.Listeners.Fronts().Turns(0))); err != nil {
		return 0, err
	}
	begun := handover.Begun{LastID: d.Core.Moving().LastID(), Drained: d.drained()}
	taken, err := s.Begun(begun, firstSyncTime)
	if err != nil {
		return 0, err
	}
	at := map[service.Frontend]userspace.Socket{}
	missed := false
	for i, socket := range sockets {
		if i+others < len(taken) && taken[i+others] {
			at[service.Frontend{Addr: socket.At, Protocol: socket.Name.Protocol}] = socket
		} else {
			missed = true
		}
	}
	accepts := time.Now()
	if missed {
		accepts = frozen.Add(HandshakeTime)
	}
	return d.giveConnections(ctx, s, at, frozen, accepts)
}

// giveLeft hands over what a daemon that drains has left. It changes no rules any more, and listens only for
// connections that are on their way: the successor opens its own listeners.
func (d predecessor) giveLeft(ctx context.Context, s *handover.Successor) (left int64, err error) {
	if _, err := d.giveOthers(s); err != nil {
		return 0, err
	}
	frozen := time.Now()
	if err := s.Turns(turns(d.Listeners.Fronts().Turns(0))); err != nil {
		return 0, err
	}
	begun := handover.Begun{LastID: d.Core.Moving().LastID(), Drained: d.drained()}
	if _, err := s.Begun(begun, firstSyncTime); err != nil {
		return 0, err
	}
	return d.giveConnections(ctx, s, nil, frozen, frozen.Add(HandshakeTime))
}

// giveOthers passes on the listeners of the daemon's own servers and the lock of the node, and returns how many.
func (d predecessor) giveOthers(s *handover.Successor) (n int, err error) {
	if lock := d.State.nodeLock(); lock != nil {
		if err := s.Lock(lock); err != nil {
			return 0, err
		}
		n++
	}
	for address, l := range d.Servers.all() {
		raw, err := l.SyscallConn()
		if err != nil {
			continue // it was closed just now
		}
		sent := errors.New("closed")
		_ = raw.Control(func(fd uintptr) {
			sent = s.Sockets([]handover.Socket{{Kind: handover.Server, Server: address}}, []int{int(fd)})
		})
		if sent != nil {
			return 0, sent
		}
		n++
	}
	return n, nil
}

// giveSockets passes on all that listens, and returns the sockets of fronts after so many others.
func (d predecessor) giveSockets(s *handover.Successor) (fronts []userspace.Socket, others int, err error) {
	if others, err = d.giveOthers(s); err != nil {
		return nil, 0, err
	}
	var sockets []handover.Socket
	var files []int
	fronts = d.Listeners.Fronts().Sockets()
	for _, at := range fronts {
		// Connections that a successor accepts may not be reset by its close, whatever this daemon has set: Resume sets
		// it again.
		_ = unix.SetsockoptLinger(at.File, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{}) // it is open
		sockets = append(sockets, handover.Socket{Kind: handover.Front, Name: at.Name, Address: at.At})
		files = append(files, at.File)
	}
	return fronts, others, s.Sockets(sockets, files)
}

func turns(all []userspace.Turn) (out []handover.Turn) {
	for _, t := range all {
		out = append(out, handover.Turn(t))
	}
	return out
}

func (d predecessor) drained() (all []handover.Drained) {
	for _, e := range d.Listeners.Endpoints().AllDrained() {
		all = append(all, handover.Drained{Name: e.Name, Endpoint: e.Addr, Forced: e.Forced})
	}
	return all
}

// dialTime is how long dials that are under way have to end.
const dialTime = 20 * time.Second

// giveConnections passes on what is open at the sockets that the successor has taken. Others accept until that time:
// clients are on their way there by the rules of before.
func (d predecessor) giveConnections(
	ctx context.Context, s *handover.Successor, taken map[service.Frontend]userspace.Socket, frozen, accepts time.Time,
) (left int64, err error) {
	listeners, until := d.Listeners, time.Now().Add(dialTime)
	listeners.Fronts().Pause(func(at netip.AddrPort) bool {
		_, is := taken[service.Frontend{Addr: at, Protocol: inet.TCP}]
		return is
	})
	if s.TakesState() {
		for _, socket := range taken {
			if err := d.giveSessions(ctx, s, socket); err != nil {
				return 0, err
			}
		}
	}
	if err := s.Changed(turns(listeners.Fronts().Turns(time.Since(frozen)))); err != nil {
		return 0, err
	}
	for last := false; s.TakesState(); { // the last time nothing more can come: the successor may listen here by now too
		left, err = d.Core.Moving().HandOver(ctx, s.Give(netip.AddrPort{}))
		if err == nil && s.TakesWaiting() {
			left, err = d.Core.Moving().HandOverWaiting(ctx, s.Give(netip.AddrPort{}))
		}
		if err != nil {
			return left, err
		}
		now := time.Now()
		if now.After(until) || left == 0 && last {
			break
		}
		if !last && now.After(accepts) {
			listeners.Fronts().Pause(nil)
			last = true
		}
		_ = backoff.Sleep(ctx, time.Millisecond)
	}
	// The successor has the connections: no fault of what is only looked at may have this daemon go on.
	if err := s.Records(d.Records.Last(connlog.DefaultStream, nil)); err != nil {
		d.Log.WithError(err).Warn("Cannot hand over the last records")
	}
	if err := s.Changes(d.Changes.Last(changes.DefaultSize, nil)); err != nil {
		d.Log.WithError(err).Warn("Cannot hand over the last changes")
	}
	left = d.Core.Stats().Connections
	return left, s.Done(left)
}

// giveSessions passes on the UDP sessions of a socket, if it has any.
func (d predecessor) giveSessions(ctx context.Context, s *handover.Successor, of userspace.Socket) error {
	f := d.Listeners.Fronts().Find(of.Name, inet.FamilyOf(of.At.Addr()))
	if f == nil {
		return nil
	}
	sessions := splice.SessionsAt(f, of.At)
	if sessions == nil {
		return nil
	}
	give := sessions.HandOver
	if s.TakesWaiting() {
		give = sessions.HandOverAll
	}
	if err := give(ctx, s.Give(of.At)); err != nil {
		return fmt.Errorf("hand over UDP sessions of %s: %w", of.Name.Label(), err)
	}
	return s.Resume(handover.Socket{Kind: handover.Front, Name: of.Name, Address: of.At})
}
