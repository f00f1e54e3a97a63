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
	// rechecksAtOnce bounds those dials, and so the descriptors and local ports that they take.
	rechecksAtOnce = 32
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
	var all sync.WaitGroup
	defer all.Wait()
	free := make(chan struct{}, rechecksAtOnce)
	for _, u := range c.endpoints.Unreached() {
		select {
		case <-ctx.Done():
			return
		case free <- struct{}{}:
		}
		all.Go(func() {
			defer func() { <-free }()
			c.recheckOne(ctx, u)
		})
	}
}

func (c *Carrier) recheckOne(ctx context.Context, u balance.Unreached) {
	ctx, cancel := context.WithTimeout(ctx, recheckTime)
	defer cancel()
	if c.opts.Reaches(ctx, u.Addr) == nil {
		c.endpoints.Reached(u)
	}
}
