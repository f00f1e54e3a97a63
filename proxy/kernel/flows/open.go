package flows

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
)

// Open lists the connections that the kernel carries now, whether they get records or not, from its conntrack table.
// Their ID is 0, their state is conntrack's, or for UDP "open" or "unanswered"; times are zero, and bytes 0, where the
// kernel does not count. Connections that both sides have closed, or one has reset, are left out. Any goroutine may
// call it.
func (r *Recorder) Open(ctx context.Context) iter.Seq2[*record.Live, error] {
	return r.list(ctx, false)
}

// Translated is Open with the connections that have ended and that conntrack still remembers.
func (r *Recorder) Translated(ctx context.Context) iter.Seq2[*record.Live, error] {
	return r.list(ctx, true)
}

func (r *Recorder) list(ctx context.Context, ended bool) iter.Seq2[*record.Live, error] {
	return func(yield func(*record.Live, error) bool) {
		if r.index.empty() {
			return
		}
		l := &lister{Recorder: r, ended: ended, now: time.Now(), timeouts: r.opts.Timeouts()}
		more := true
		err := r.opts.List(ctx, func(flow []byte) bool {
			if live := l.live(flow); live != nil {
				more = yield(live, nil)
			}
			return more
		})
		if err != nil && more {
			yield(nil, fmt.Errorf("list the connections that the kernel carries: %w", err))
		}
	}
}

// lister makes one list.
type lister struct {
	*Recorder
	ended    bool // those that have ended too
	now      time.Time
	timeouts Timeouts
	flow     Flow
	out      record.Live
}

// live returns the connection of a flow, nil if it is to be left out. It is valid until the next call.
func (l *lister) live(attributes []byte) *record.Live {
	f := &l.flow
	if !f.parse(attributes) || !l.ended && (f.State.ended() || f.SCTP == SCTPClosed) {
		return nil
	}
	k, kind, endpoint := l.carried(f)
	if k == nil {
		return nil
	}
	l.out = record.Live{
		Service: k.Name, State: f.state(), Client: f.From, OriginalDst: f.To, Portal: kind, Attempts: 1, FirstByte: -1,
		Endpoint: endpoint, Proxy: f.Answering, LastMoved: l.now.Add(-l.timeouts.idle(f)),
		BytesFromClient: int64(f.Sent.Bytes), BytesToEndpoint: int64(f.Sent.Bytes),
		BytesFromEndpoint: int64(f.Returned.Bytes), BytesToClient: int64(f.Returned.Bytes),
	}
	if f.Start != 0 {
		l.out.Start = time.Unix(0, f.Start)
	}
	w := l.whoIs(f.From.Addr())
	l.out.ClientPod, l.out.ClientNode, l.out.ClientZone = w.Pod, w.Node, w.Zone
	return &l.out
}

func (f *Flow) state() record.ConnState {
	switch {
	case f.Protocol == inet.TCP:
		return record.ConnState(f.State.String())
	case f.Protocol == inet.SCTP && f.SCTP != SCTPUnknown:
		return record.ConnState(f.SCTP.String())
	case f.Status&SeenReply == 0:
		return unanswered
	}
	return record.StateOpen
}

const unanswered record.ConnState = "unanswered"

// ended tells whether a connection is not open any more.
func (s State) ended() bool { return s == TimeWait || s == Closed || s == LastAck }

// ConnStates returns the states that the connections of Open may have, each once.
func ConnStates() []record.ConnState {
	all := []record.ConnState{record.StateOpen, unanswered}
	for s := SynSent; s.String() != ""; s++ {
		if !s.ended() {
			all = append(all, record.ConnState(s.String()))
		}
	}
	for s := SCTPClosed + 1; s.String() != ""; s++ {
		if state := record.ConnState(s.String()); !slices.Contains(all, state) { // ESTABLISHED is of TCP too
			all = append(all, state)
		}
	}
	return all
}
