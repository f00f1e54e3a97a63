package userspace

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

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

// Recheck dials endpoints that are ejected since dials fail, until ctx ends: a client that tried one would wait. One
// that answers is tried by the next connection, as if its time were up.
func (c *Carrier) Recheck(ctx context.Context) error {
	if c.opts.Reaches == nil {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(recheckEvery - rand.N(recheckEvery/4)):
			c.recheck(ctx)
		}
	}
}

func (c *Carrier) recheck(ctx context.Context) {
	unreached := c.endpoints.Unreached()
	rand.Shuffle(len(unreached), func(i, j int) { unreached[i], unreached[j] = unreached[j], unreached[i] })
	var all sync.WaitGroup
	for _, u := range unreached[:min(len(unreached), rechecksAtOnce)] {
		all.Go(func() { c.recheckOne(ctx, u) })
	}
	all.Wait()
}

func (c *Carrier) recheckOne(ctx context.Context, u balance.Unreached) {
	ctx, cancel := context.WithTimeout(ctx, recheckTime)
	defer cancel()
	if c.opts.Reaches(ctx, u.Addr) == nil {
		c.endpoints.Reached(u)
	}
}
