package doctor

import "context"

// Source asks a running portald. Each returns an error if none runs, one that wraps ErrDenied if it may not be asked.
type Source struct {
	Daemon   func(context.Context) (Daemon, error)
	Services func(context.Context) (Services, error)
}

// Collect looks at the system, at all at a time. A reader that exceeds its limit leaves its fact unknown. It asks the
// daemon first, since what it says tells where to look.
func Collect(ctx context.Context, from Source) *Facts {
	f := &Facts{}
	first := begin(ctx, daemonLimit)
	gather(first, "portald", &f.Daemon, from.Daemon)
	gather(first, "portald, asked for Services,", &f.Services, from.Services)
	first.wait()

	then := begin(ctx, systemLimit)
	f.collect(then)
	then.wait()
	return f
}
