package userspace

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/proxy/balance"
)

const (
	// recheckEvery is how often ejected endpoints are dialled: one that is back has its share within two seconds.
	recheckEvery = time.Second
	// recheckTime is how long such a dial has.
	recheckTime = time.Second
	// rechecksAtOnce bounds those dials, and so the descriptors and local ports that they take. Of more endpoints so many
	// are dialled each time, by chance.
	rechecksAtOnce = 64
)

// rechecker dials endpoints that are ejected since dials fail: a client that tried one would wait. One that answers is
// tried by the next connection, as if its time were up.
type rechecker struct {
	endpoints *balance.Endpoints
	reaches   func(context.Context, netip.AddrPort) error // Options.Reaches
}

func (r *rechecker) run(ctx context.Context) error {
	if r.reaches == nil {
		return nil
	}
	for backoff.Sleep(ctx, recheckEvery-rand.N(recheckEvery/4)) == nil {
		r.recheck(ctx)
	}
	return nil
}

func (r *rechecker) recheck(ctx context.Context) {
	unreached := r.endpoints.Unreached()
	rand.Shuffle(len(unreached), func(i, j int) { unreached[i], unreached[j] = unreached[j], unreached[i] })
	var all sync.WaitGroup
	for _, u := range unreached[:min(len(unreached), rechecksAtOnce)] {
		all.Go(func() { r.recheckOne(ctx, u) })
	}
	all.Wait()
}

func (r *rechecker) recheckOne(ctx context.Context, u balance.Unreached) {
	ctx, cancel := context.WithTimeout(ctx, recheckTime)
	defer cancel()
	if r.reaches(ctx, u.Addr) == nil {
		r.endpoints.Reached(u)
	}
}
