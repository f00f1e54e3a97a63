package main

import (
	"context"
	"errors"
	"sync"
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

// serve runs until ctx ends or a part fails. Then: not ready, no new changes, no new connections, open ones drained, the rest
// cut and recorded, the host's rules removed unless the kernel carries on with them, and last of all what shows it.
func (d *daemon) serve(ctx context.Context) error {
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	show := begin(failed, d.servers[0].Run, d.servers[1].Run, d.services.Run, d.eventsRun)
	record := begin(failed, d.recordRun, d.trouble.run)
	carry := begin(failed, append(d.host.follow(d.log), d.core.Run)...)
	control := begin(failed,
		d.source.Run,
		func(ctx context.Context) error { return d.loop.Run(ctx, d.source.Synced()) },
		d.clearOthers,
		func(ctx context.Context) error { return d.flags.Follow(ctx, d.cfg, d.log, d.apply) })

	<-ctx.Done()
	d.health.Draining()
	errs := []error{control.end()}
	l := &leave{daemon: d, handOver: d.settings.Load().HandOver}
	errs = append(errs, inTime(l.withdraw))
	l.drain()
	errs = append(errs, inTime(d.dataplane.Forget))
	d.listeners.Close()
	errs = append(errs, carry.end(), inTime(l.remove), record.end(), show.end())
	d.host.close()
	return errors.Join(errs...)
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
