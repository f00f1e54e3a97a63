package answers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/explain"
	"github.com/portald/portald/proxy/kernel/flows"
)

// flip implements adminsocket.Daemon.Flip.
func (x *Explainer) flip(ctx context.Context, what, mode string) (*explain.Report, error) {
	to, known := service.ParseMode(mode)
	if !known {
		return nil, fmt.Errorf("%q: must be userspace or kernel", mode)
	}
	q, err := explain.Parse(what, "")
	if err != nil {
		return nil, err
	}
	done, err := x.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ports := x.facts.Inventory.Store.Ports()
	q, found := explain.Find(x.connection(q), ports, x.facts.Host.Addresses.Contains)
	if q.Pod != "" || q.Endpoint.IsValid() || q.Connection != nil {
		return nil, fmt.Errorf("%s: must be NAMESPACE/NAME[:PORT] or an address of a Service: a mode is a Service's", what)
	}
	more := max(len(found)-mostSubjects, 0)
	flipped := x.flipped(ctx, q, found[:len(found)-more], ports)
	report := explain.Flip(what, x.flipNode(), flipped, to, time.Now())
	complete(report, q, ports, more)
	return report, ctx.Err()
}

func (x *Explainer) flipNode() explain.FlipNode {
	return explain.FlipNode{
		Node: x.node(), Masquerade: x.facts.Config.Masquerade, Pods: x.facts.Host.Detector.Rules(),
		Offers: x.facts.Writer.Offers, Refused: x.facts.Config.RefusedAnnotations,
	}
}

// flipped collects the facts of service ports.
func (x *Explainer) flipped(
	ctx context.Context, q explain.Query, found, all []*service.Port,
) []explain.Flipped {
	out := make([]explain.Flipped, len(found))
	of := map[service.PortName]*explain.Flipped{}
	for i, p := range found {
		f := &out[i]
		of[p.Name], f.Port = f, p
		f.Annotations = x.facts.Cache.Annotations(p.Name.Service())
		f.Bindings = x.facts.Inventory.Listeners.Fronts().Bindings(p.Name)
		f.Waiting = x.facts.Core.Waiting(p.Name.Service())
		drained := x.facts.Inventory.drained(p)
		f.Drained = func(at netip.AddrPort) bool { return slices.Contains(drained, at) }
		f.Ejected = x.facts.Inventory.ejected(p)
		f.Records = x.facts.Records.Last(lastRecords, q.About(p))
		for _, o := range all {
			isFound := slices.ContainsFunc(found, func(f *service.Port) bool { return f.Name == o.Name })
			if o.Name.Service() == p.Name.Service() && !isFound {
				f.Others = append(f.Others, o.Name.Port)
			}
		}
		slices.Sort(f.Others)
	}
	for live := range x.facts.Core.All() {
		if f := of[live.Service]; f != nil {
			f.Open[inet.FamilyOf(live.Client.Addr())]++
		}
	}
	x.carried(ctx, out)
	return out
}

// carried counts what the kernel carries.
func (x *Explainer) carried(ctx context.Context, of []explain.Flipped) {
	if x.facts.Config.Writer == writers.Netsh {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	here := x.facts.Host.Addresses.Contains
	err := x.facts.ListFlows(ctx, func(raw []byte) bool {
		f, ok := flows.Parse(raw)
		for i := range of {
			leads := func(e service.Endpoint) bool { return e.Addr == f.Replier }
			open := f.Protocol != inet.TCP || f.State == flows.Established
			if p := &of[i]; ok && open && p.Dialled(f.To, f.Protocol, here) && slices.ContainsFunc(p.Port.Endpoints, leads) {
				p.Carried++
			}
		}
		return true
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the conntrack table was not read within %s", listTime)
	}
	for i := range of {
		of[i].FlowsErr = err
	}
}
