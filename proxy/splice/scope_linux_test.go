package splice

import (
	"net"
	"net/netip"
	"testing"

	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/proxy/service"
)

// A client from outside has the endpoints of this node, and is known by the interface that it comes in by.
func TestExternalScope(t *testing.T) {
	n := newNetwork(t)
	index := map[string]int{}
	n.node.Must(func() error {
		for _, name := range []string{"client0", "pod0"} {
			i, err := net.InterfaceByName(name)
			if err != nil {
				return err
			}
			index[name] = i.Index
		}
		return nil
	})
	type asked struct {
		client netip.Addr
		iface  int
	}
	questions := make(chan asked, 1)
	r := newRigIn(t, n.node, Options{Inside: func(client netip.Addr, iface int) bool {
		questions <- asked{client, iface}
		return iface != index["client0"]
	}}, nothing)
	for i, family := range service.IPFamilies() {
		for _, protocol := range protocols {
			anywhere := whoami(t, n.pod, protocol, podAddrs[i])
			here := whoami(t, n.node, protocol, towardPod[i])
			pickers := Pickers{&ring{list: []netip.AddrPort{anywhere}}, &ring{list: []netip.AddrPort{here}}}
			port := r.expose(t, n.node, &service.Port{ExternalLocal: true}, protocol, family, pickers)
			plain := r.expose(t, n.node, &service.Port{InternalLocal: true}, protocol, family, pickers)
			for _, c := range []struct {
				from  *portaltest.Namespace
				addr  netip.Addr
				by    string
				dial  netip.Addr
				wants netip.AddrPort
			}{
				{n.client, clientAddrs[i], "client0", towardClient[i], here},
				{n.pod, podAddrs[i], "pod0", towardPod[i], anywhere},
				{n.node, towardPod[i], "pod0", towardPod[i], anywhere}, // the interface that has the address it dialled
			} {
				if _, err := askIn(c.from, protocol, netip.AddrPortFrom(c.dial, port)); err != nil {
					t.Errorf("%s from %s: %v", protocol, c.addr, err)
					continue
				}
				if got := <-questions; got != (asked{c.addr, index[c.by]}) {
					t.Errorf("%s from %s by %s (%d): asked for %+v", protocol, c.addr, c.by, index[c.by], got)
				}
				if protocol == service.TCP {
					if rec := r.record(t); rec.Endpoint.Addr != c.wants {
						t.Errorf("%s was led to %s, want %s", c.addr, rec.Endpoint.Addr, c.wants)
					}
				}
				if _, err := askIn(c.from, protocol, netip.AddrPortFrom(c.dial, plain)); err != nil {
					t.Errorf("%s from %s: %v", protocol, c.addr, err)
				}
				if protocol == service.TCP {
					if rec := r.record(t); rec.Endpoint.Addr != anywhere {
						t.Errorf("an internal policy concerns a NodePort: led to %s", rec.Endpoint.Addr)
					}
				}
			}
		}
	}
	select {
	case q := <-questions:
		t.Errorf("asked for %+v where it does not matter", q)
	default:
	}
}

// An internal traffic policy Local leaves a ClusterIP to the endpoints of this node, and to nobody where there are none.
func TestInternalScope(t *testing.T) {
	anywhere, here := serveTCP(t, "127.0.0.1", echo), serveTCP(t, "127.0.0.1", echo)
	for _, c := range []struct {
		name    string
		port    service.Port
		here    Picker
		want    netip.AddrPort
		outcome Outcome
	}{
		{"Cluster", service.Port{ExternalLocal: true}, nil, anywhere, OutcomeOK},
		{"Local", service.Port{InternalLocal: true}, &ring{list: []netip.AddrPort{here}}, here, OutcomeOK},
		{"Local, none here", service.Port{InternalLocal: true}, &ring{}, netip.AddrPort{}, OutcomeNoEndpoint},
		{"Local, no picker", service.Port{InternalLocal: true}, nil, netip.AddrPort{}, OutcomeNoEndpoint},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{Inside: func(netip.Addr, int) bool {
				t.Error("asked where it does not matter")
				return true
			}})
			_, free := r.open(t, service.TCP, "127.0.0.1")
			at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), free.Port())
			view := viewOf(at, service.TCP, []netip.AddrPort{anywhere, here})
			view.Port = &c.port
			pickers := Pickers{&ring{list: []netip.AddrPort{anywhere}}, c.here}
			if _, err := r.Open(service.PortName{Protocol: service.TCP}, pickers, view, at); err != nil {
				t.Fatal(err)
			}
			if c.outcome == OutcomeNoEndpoint {
				wantReset(t, at)
			} else {
				dialTCP(t, at).Close()
			}
			if rec := r.record(t); rec.Outcome != c.outcome || rec.Endpoint.Addr != c.want {
				t.Errorf("record %+v", rec)
			}
		})
	}
}
