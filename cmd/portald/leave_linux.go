package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/portald/portald/proxy/service"
)

// leave is the end of a daemon: the kernel carries Services on until the next start, or nothing is left of it.
type leave struct {
	*daemon
	handOver bool
	moved    int // service ports that this daemon carried, and the kernel does now
}

// withdraw leads no new connection here. After a hand-over listeners stay open, for connections that were on their way.
func (l *leave) withdraw(ctx context.Context) (err error) {
	if !l.handOver {
		err = l.dataplane.Close(ctx)
		l.listeners.Close()
		return errors.Join(err, l.dataplane.Unguard(ctx))
	}
	l.moved, err = l.dataplane.HandOver(ctx, l.alike)
	l.listeners.Withdraw()
	err = errors.Join(err, l.dataplane.Unguard(ctx))
	if l.moved > 0 {
		l.log.Infof("The kernel carries %d service ports until the next start, as onExit says", l.moved)
		l.checkForwarding()
	}
	return err
}

// alike tells whether the kernel can carry a service port so that clients and endpoints understand each other.
func (l *leave) alike(p *service.Port) bool {
	header := p.Policy.Or(l.settings.Load().Policy).ClientAddress == service.AddressProxyV2 && p.Name.Protocol == service.TCP
	if header {
		l.log.WithField("service", p.Name.Label()).
			Warn("Refused until the next start: its endpoints wait for a PROXY protocol header, which the kernel does not write")
	}
	return !header
}

// arriveTime is how long after a hand-over connections may still come here: a handshake that a listener began is to end, and
// a segment of it that was lost is sent again after a second.
const arriveTime = 1200 * time.Millisecond

// drain lets open connections end, for the drain timeout or until another signal comes, and answers to UDP sessions that are
// under way come, for some seconds of it.
func (l *leave) drain() {
	stats, drain := l.core.Stats(), l.settings.Load().Drain
	live := stats.Connections
	if drain == 0 || live+stats.Sessions == 0 && l.moved == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if live > 0 {
		l.log.Infof("Draining: %d connections have %s to end; another signal cuts them", live, drain)
	}
	if stats.Sessions > 0 {
		l.log.Infof("Draining: answers to %d UDP sessions have a few seconds to come", stats.Sessions)
	}
	if l.moved > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(arriveTime):
		}
	}
	if left := l.core.Drain(ctx); left > 0 {
		l.log.Warnf("%d connections did not end in time and are cut", left)
	}
}

// remove takes away what has no use once the daemon is gone. What was handed over stays as it is: another daemon may have
// taken it up by now.
func (l *leave) remove(ctx context.Context) error {
	if l.handOver {
		return nil
	}
	return errors.Join(forFamilies(traceOf(l.cfg).divert.Remove), l.writer.Cleanup(ctx))
}

// leaveTime bounds each step of changing rules at the end.
const leaveTime = 20 * time.Second

func inTime(step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	return step(ctx)
}
