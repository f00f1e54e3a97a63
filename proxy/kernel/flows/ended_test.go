package flows

import (
	"net/netip"
	"testing"

	"github.com/portald/portald/portal/service"
)

// What ended is counted by service port and endpoint while it is known, across changes, and said to be known only while
// something records.
func TestEnded(t *testing.T) {
	b := newBed(t, nil)
	p := cart()
	at := service.Frontend{Addr: netip.MustParseAddrPort("10.96.0.1:81"), Protocol: p.Name.Protocol}
	refuses := service.Endpoint{Addr: netip.MustParseAddrPort("127.0.0.1:9"), Ready: true, Serving: true}
	p.Exposures = append(p.Exposures[:2:2], service.Exposure{Frontend: at}, p.Exposures[2])
	p.Endpoints = append([]service.Endpoint{refuses}, p.Endpoints...)
	b.Replace([]*service.Port{p})
	if e := b.Ended(p.Name); e.Wants != service.RecordsOff {
		t.Errorf("nothing records: %+v", e)
	}
	b.recording.Store(true)
	b.end("tcp 10.96.0.1:80")
	b.end("tcp 10.96.0.1:81")
	b.end("tcp 10.96.0.1:81")
	e := b.Ended(p.Name)
	good, bad := e.Endpoints[p.Endpoints[1].Addr], e.Endpoints[refuses.Addr]
	if e.Wants != service.RecordsAll || e.Ended != 3 || e.Failed != 2 || e.FromClient == 0 || e.FromEndpoint == 0 {
		t.Errorf("%+v", e)
	}
	if good.Ended != 1 || good.Failures != 0 || good.LastError != "" {
		t.Errorf("the endpoint that works: %+v", good)
	}
	if bad.Ended != 2 || bad.Failures != 2 || bad.Unreached != 2 || bad.LastError != "connection refused" ||
		bad.LastFailure.IsZero() {
		t.Errorf("the one that refuses: %+v", bad)
	}
	b.SetPolicy(service.Policy{KernelRecords: service.RecordsFailures})
	if e := b.Ended(p.Name); e.Wants != service.RecordsFailures {
		t.Errorf("only failures are recorded: %+v", e)
	}
	fewer := *p
	fewer.Endpoints = p.Endpoints[1:]
	b.Update([]service.Change{{Name: p.Name, Port: &fewer}})
	b.end("tcp 10.96.0.1:81")
	if e := b.Ended(p.Name); e.Ended != 4 || len(e.Endpoints) != 1 {
		t.Errorf("without the endpoint: %+v", e)
	}
	b.Replace(nil)
	b.index.expire(b.index.swept.Add(2 * keep))
	if e := b.Ended(p.Name); e.Wants != service.RecordsOff || e.Ended != 0 {
		t.Errorf("of a Service that is forgotten: %+v", e)
	}
}
