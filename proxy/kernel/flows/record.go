package flows

import (
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// recordOf returns the record of a flow that has ended, nil if none is wanted.
func (r *Recorder) recordOf(f *Flow) *record.Record {
	k, kind, endpoint := r.carried(f)
	if k == nil {
		return nil
	}
	end, policy := endOf(f), k.Policy.Or(r.index.defaults())
	switch policy.KernelRecords {
	case service.RecordsAll:
	case service.RecordsFailures:
		if end.outcome == record.OutcomeOK {
			return nil
		}
	default:
		return nil
	}
	if end.outcome == record.OutcomeCut {
		end.outcome = k.whyCut(f)
	}
	all := &oneAttempt{}
	all.Service, all.Portal, all.Endpoint, all.Logging = k.Name, kind, endpoint, policy.Logging
	rec := r.fill(f, end, all)
	_, listed := k.listed(f.Replier)
	k.ended.count(rec, listed)
	return rec
}

// oneAttempt is a Record and its only attempt, in one piece of memory.
type oneAttempt struct {
	record.Record
	attempt [1]record.Attempt
}

// carried returns the service port, the frontend's kind and the endpoint of a flow; nil: no service port owns what the
// client dialled, or the flow leads to a listener of the daemon, which knows it better.
func (r *Recorder) carried(f *Flow) (*known, service.Kind, service.Endpoint) {
	r.index.mu.RLock()
	defer r.index.mu.RUnlock()
	k, kind := r.index.find(f.To, f.Protocol)
	if k == nil {
		return nil, 0, service.Endpoint{}
	}
	endpoint, is := k.endpoint(f.Replier)
	if !is && r.opts.Listener(f.Replier) {
		return nil, 0, service.Endpoint{}
	}
	endpoint.Addr = f.Replier
	return k, kind, endpoint
}

// whyCut is the outcome of a flow that was removed before its time: the dataplane removes UDP flows to endpoints that
// are gone.
func (k *known) whyCut(f *Flow) record.Outcome {
	if f.Protocol != inet.UDP {
		return record.OutcomeCut
	}
	if k.isGone() {
		return record.OutcomeServiceRemoved
	}
	if _, is := k.listed(f.Replier); !is {
		return record.OutcomeEndpointRemoved
	}
	return record.OutcomeCut
}

func (r *Recorder) fill(f *Flow, end ending, all *oneAttempt) *record.Record {
	rec := &all.Record
	rec.ID, rec.CarriedBy = r.opts.NextID(), record.Kernel
	rec.Client, rec.OriginalDst = f.From, f.To
	w := r.whoIs(f.From.Addr())
	rec.ClientPod, rec.ClientNode, rec.ClientZone = w.Pod, w.Node, w.Zone
	rec.BytesFromClient, rec.BytesFromEndpoint = int64(f.Sent.Bytes), int64(f.Returned.Bytes)
	rec.BytesToEndpoint, rec.BytesToClient = rec.BytesFromClient, rec.BytesFromEndpoint
	rec.Connect, rec.FirstByte = -1, -1
	rec.Start, rec.Duration = r.times(f)
	rec.Outcome, rec.CloseType, rec.Errno = end.outcome, end.close, end.errno
	if end.errno != 0 {
		rec.Error = end.errno.Error()
	}
	a := &all.attempt[0]
	*a = record.Attempt{Endpoint: f.Replier, Proxy: f.Answering, Times: 1}
	if end.outcome == record.OutcomeDialFailed {
		a.Err, a.Took = rec.Error, rec.Duration
		if end.close == record.Timeout {
			a.Err, a.Took = record.TimedOut, f.lasted() // as long as nothing came
		}
	}
	rec.Attempts = all.attempt[:]
	return rec
}

// lasted is how long the kernel had the entry, 0 if that is not known.
func (f *Flow) lasted() time.Duration {
	if f.Start == 0 || f.Stop == 0 {
		return 0
	}
	return max(0, time.Duration(f.Stop-f.Start))
}

// whoIs returns the pod that a client is, as far as that is known.
func (r *Recorder) whoIs(client netip.Addr) (w service.Workload) {
	if r.opts.WhoIs != nil {
		w, _ = r.opts.WhoIs(client)
	}
	return w
}

// times returns when the first packet came, and how long after that the last one. A flow that began while the kernel
// kept no times seems to begin when it ended.
func (r *Recorder) times(f *Flow) (start time.Time, duration time.Duration) {
	end := time.Now()
	if f.Stop != 0 {
		end = time.Unix(0, f.Stop)
	}
	end = end.Add(-r.timeouts.idle(f))
	if f.Start == 0 {
		return end, 0
	}
	start = time.Unix(0, f.Start)
	return start, max(0, end.Sub(start))
}
