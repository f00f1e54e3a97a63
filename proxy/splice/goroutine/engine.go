package goroutine

import (
	"context"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/splice"
)

// Engine implements splice.Engine.
type Engine struct {
	shared
	sockets sockets
}

// Open returns a func that makes an Engine, for splice.New.
func Open(host Host) func(*splice.Core) (splice.Engine, error) {
	return func(core *splice.Core) (splice.Engine, error) {
		e := &Engine{
			shared: shared{core: core, host: host, turns: newTurns()}, sockets: sockets{all: map[socket]struct{}{}},
		}
		e.pipes.pool.Account = core.Options().Account
		e.ctx, e.stop = context.WithCancel(context.Background())
		return e, nil
	}
}

// Listen implements splice.Engine.
func (e *Engine) Listen(f *splice.Front, at netip.AddrPort) (splice.Socket, error) {
	if f.Name().Protocol == inet.UDP {
		return listenUDP(&e.shared, &e.sockets, f, at)
	}
	return listenTCP(&e.shared, &e.sockets, f, at)
}

// Run implements splice.Engine.
func (e *Engine) Run(ctx context.Context) error {
	e.live.Add(1)
	<-ctx.Done()
	e.enter(stopping)
	sockets := e.sockets.list()
	for _, s := range sockets {
		s.stop()
	}
	e.core.CutAll()
	for _, s := range sockets {
		s.end()
	}
	e.stop()
	e.enter(ended)
	e.live.Done()
	e.live.Wait()
	e.pipes.close()
	return nil
}

// Silent implements splice.Engine. Each connection has goroutines of its own, so none can block all others.
func (e *Engine) Silent() time.Duration { return 0 }
