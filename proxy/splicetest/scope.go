package splicetest

import (
	"net/netip"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func scopeScenarios() []scenario {
	return []scenario{{name: "InternalScope", run: internalScope}}
}

// internalScope: an internal traffic policy Local leaves a ClusterIP to the endpoints of this node, and to none where
// there are none.
func internalScope(t *trial) {
	anywhere, here := echoServer(t), echoServer(t)
	local := service.Port{InternalLocal: true}
	for _, c := range []struct {
		name    string
		port    service.Port
		here    splice.Picker
		want    netip.AddrPort
		outcome record.Outcome
	}{
		{"Cluster", service.Port{ExternalLocal: true}, nil, anywhere, record.OutcomeOK},
		{"Local", local, &ring{list: []netip.AddrPort{here}}, here, record.OutcomeOK},
		{"LocalNoneHere", local, &ring{}, netip.AddrPort{}, record.OutcomeNoEndpoint},
		{"LocalNoPicker", local, nil, netip.AddrPort{}, record.OutcomeNoEndpoint},
	} {
		t.sub(c.name, func(t *trial) {
			d := t.start(splice.Options{IsLocal: func(netip.Addr, int) bool {
				t.Error("asked where it does not matter")
				return true
			}})
			pickers := splice.Pickers{
				service.ClusterScope: &ring{list: []netip.AddrPort{anywhere}}, service.NodeScope: c.here,
			}
			f := d.serve(serving{
				port: c.port, pickers: &pickers, kind: service.ClusterIP, endpoints: []netip.AddrPort{anywhere, here},
			})
			if c.outcome == record.OutcomeNoEndpoint {
				wantReset(t, f.at)
			} else {
				wantEcho(t, dialTCP(t, f.at), "x")
			}
			if rec := d.record(); rec.Outcome != c.outcome || rec.Endpoint.Addr != c.want {
				t.Errorf("record %+v", rec)
			}
		})
	}
}
