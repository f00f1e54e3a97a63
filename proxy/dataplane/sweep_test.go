package dataplane

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// All flows are looked through once a period, whatever else is swept or audited meanwhile. A failure is reported, and
// is no reason to write anything again.
func TestSweepLooksThroughFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		var reported error
		r.with(func(o *Options) { o.FlowPeriod, o.Warn = time.Minute, func(err error) { reported = err } })
		r.sync(t, portOf("dns", vip, 0, "10.1.0.1:53"))
		r.scanned = nil
		sweep := func() time.Duration {
			t.Helper()
			next, err := r.Sweep(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return time.Until(next)
		}
		if wait := sweep(); wait != time.Minute || r.scanned != nil {
			t.Errorf("after a sync: the next sweep in %s, looked for stale flows: %t", wait, r.scanned != nil)
		}
		time.Sleep(time.Minute - time.Second)
		if wait := sweep(); wait != time.Second || r.scanned != nil {
			t.Errorf("early: the next sweep in %s, looked for stale flows: %t", wait, r.scanned != nil)
		}
		time.Sleep(time.Second)
		if err := r.Audit(t.Context()); err != nil || r.scanned != nil {
			t.Errorf("audit: %v, looked for stale flows: %t", err, r.scanned != nil)
		}
		if wait := sweep(); wait != time.Minute || r.scanned == nil {
			t.Errorf("in time: the next sweep in %s, looked for stale flows: %t", wait, r.scanned != nil)
		}
		r.blind = errors.New("not permitted")
		time.Sleep(time.Minute)
		if sweep(); !errors.Is(reported, r.blind) {
			t.Errorf("reported: %v", reported)
		}
	})
}
