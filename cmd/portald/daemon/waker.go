package daemon

import (
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/wake"
)

// waker tells the API server of clients that wait for an endpoint, and scales workloads for them.
type waker struct {
	*parts.Stage
	*wake.Waker
}

func (d *daemon) newWaker() *waker {
	events := d.source.events
	o := wake.Options{
		Log: d.log, NeedPods: events.NeedPods, Scaled: events.Scaled, Failed: events.NotScaled,
		Waits: func(svc service.Name) bool { return d.path.core.Waiting(svc) > 0 },
	}
	if client := d.source.client; client != nil {
		o.Client = client
	}
	w := wake.New(o)
	return &waker{parts.NewStage(w.Run), w}
}

// needPods implements splice.Options.NeedPods.
func (d *daemon) needPods(p *service.Port) { d.waker.Need(p) }
