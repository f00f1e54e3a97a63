package splicetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// dataPath is a data path that runs, with the records that it reported.
type dataPath struct {
	*splice.Core
	t       *trial
	records chan *record.Record
	rings   []*ring
	stop    func() // ends it and waits for its end
}

// start has a data path run until the scenario ends.
func (t *trial) start(opts splice.Options) *dataPath {
	t.Helper()
	d := &dataPath{t: t, records: make(chan *record.Record, 1<<16)}
	opts.Observe = func(service.PortName) record.Observer {
		return record.ObserverFunc(func(rec *record.Record) { d.records <- rec })
	}
	if p := &opts.Policy; p.ConnectTimeouts == nil && p.Dials == 0 {
		p.ConnectTimeouts = slices.Repeat([]time.Duration{longest}, 4) // a dial may take long on a busy machine
	}
	core, err := splice.New(opts, t.engine.Open)
	t.must(err)
	d.Core = core
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() {
		if err := core.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	d.stop = sync.OnceFunc(func() {
		cancel()
		run.Wait()
	})
	t.Cleanup(func() {
		d.stop()
		d.checkLeases()
		d.logRecords()
	})
	return d
}

// logRecords is for scenarios that fail: the records that they did not read may say why.
func (d *dataPath) logRecords() {
	d.t.Helper()
	for range 20 {
		select {
		case rec := <-d.records:
			if d.t.Failed() {
				d.t.Logf("not read: %+v", rec)
			}
		default:
			return
		}
	}
}

// checkLeases is for the end, when all reports have come.
func (d *dataPath) checkLeases() {
	d.t.Helper()
	for _, r := range d.rings {
		for _, l := range r.given() {
			if !l.wellFormed() {
				d.t.Errorf("lease with %d dials (%v) and %d ends", l.dials, l.dial, l.ends)
			}
		}
	}
}

// record waits for the next record.
func (d *dataPath) record() *record.Record {
	d.t.Helper()
	select {
	case rec := <-d.records:
		return rec
	case <-time.After(longest):
		d.t.Fatalf("no record came within %s", longest)
		return nil
	}
}

// noRecord expects that nothing ends for some time.
func (d *dataPath) noRecord(within time.Duration) {
	d.t.Helper()
	select {
	case rec := <-d.records:
		d.t.Fatalf("ended too early: %+v", rec)
	case <-time.After(within):
	}
}

// sessions waits until so many UDP sessions are open.
func (d *dataPath) sessions(n int64) {
	d.t.Helper()
	d.t.eventually("the number of sessions", func() bool { return d.Stats().Sessions == n })
}
