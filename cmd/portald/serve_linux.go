package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/portald/portald/proxy/service"
)

// stage is some goroutines that end together: what is started first ends last.
type stage struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	errs   []error
}

// begin starts the parts of a stage. One that fails has failed told.
func begin(failed context.CancelCauseFunc, parts ...func(context.Context) error) *stage {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stage{cancel: cancel}
	for _, part := range parts {
		s.wg.Go(func() {
			if err := part(ctx); err != nil {
				s.mu.Lock()
				s.errs = append(s.errs, err)
				s.mu.Unlock()
				failed(err)
			}
		})
	}
	return s
}

// end stops the parts and waits for them.
func (s *stage) end() error {
	s.cancel()
	s.wg.Wait()
	return errors.Join(s.errs...)
}

// serve runs until ctx ends or a part fails. Then: not ready, no new changes, portals away, or left to the kernel, and
// listeners closed, open connections drained, the rest cut and recorded, the host's rules removed unless the kernel carries
// on with them, and last of all what shows it.
func (d *daemon) serve(ctx context.Context) error {
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	show := begin(failed, d.servers[0].Run, d.servers[1].Run, d.services.Run, d.eventsRun)
	record := begin(failed, d.recordRun, d.trouble.run)
	carry := begin(failed, append(d.host.follow(d.log), d.engine.Run)...)
	control := begin(failed,
		d.source.Run,
		func(ctx context.Context) error { return d.loop.Run(ctx, d.source.Synced()) },
		d.clearOthers,
		func(ctx context.Context) error { return d.flags.Follow(ctx, d.cfg, d.log, d.apply) })

	<-ctx.Done()
	d.health.Draining()
	errs := []error{control.end()}
	errs = append(errs, inTime(d.withdraw))
	d.drain()
	errs = append(errs, carry.end(), inTime(d.remove), record.end(), show.end())
	d.host.close()
	return errors.Join(errs...)
}

// withdraw leads no new connection here. In a kernel mode the kernel carries all Services until the next start.
func (d *daemon) withdraw(ctx context.Context) error {
	leave := d.dataplane.Close
	if d.cfg.Mode == service.ModeKernel {
		leave = d.dataplane.HandOver
	}
	err := leave(ctx)
	d.listeners.Close()
	return errors.Join(err, d.dataplane.Unguard(ctx))
}

// remove takes away what has no use once the daemon is gone.
func (d *daemon) remove(ctx context.Context) error {
	err := families(traceOf(d.cfg).divert.Remove)
	if d.cfg.Mode == service.ModeKernel {
		return err
	}
	return errors.Join(d.writer.Cleanup(ctx), err)
}

func (d *daemon) recordRun(ctx context.Context) error {
	if d.records == nil {
		return nil
	}
	return d.records.Run(ctx)
}

func (d *daemon) eventsRun(ctx context.Context) error {
	if d.events == nil {
		return nil
	}
	return d.events.Run(ctx)
}

// leaveTime bounds each step of the removal of rules at the end.
const leaveTime = 20 * time.Second

func inTime(step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	return step(ctx)
}

// drain lets open connections end, for the drain timeout or until another signal comes.
func (d *daemon) drain() {
	live, drain := d.engine.Stats().Connections, d.settings.Load().Drain
	if live == 0 || drain == 0 {
		return
	}
	d.log.Infof("Draining: %d connections have %s to end; another signal cuts them", live, drain)
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if left := d.engine.Drain(ctx); left > 0 {
		d.log.Warnf("%d connections did not end in time and are cut", left)
	}
}
