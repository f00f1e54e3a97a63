package splicetest

import (
	"net"
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

func externalScopeScenarios() []scenario {
	return []scenario{{name: "ExternalScope", run: externalScope, needs: Interfaces, scope: network}}
}

// asked is a question to Options.IsLocal.
type asked struct {
	client netip.Addr
	iface  int
}

// externalScope: a client from outside has the endpoints of this node, and is known by the interface that it comes in
// by: for the node itself, that is the one with the address that was dialled.
func externalScope(t *trial) {
	c := newCluster(t)
	index := indexOf(t, "client0", "pod0")
	questions := make(chan asked, 1)
	d := t.start(splice.Options{IsLocal: func(client netip.Addr, iface int) bool {
		questions <- asked{client, iface}
		return iface != index["client0"]
	}})
	eachProtocol(func(protocol inet.Protocol, family inet.Family) {
		anywhere := c.whoami(c.pod, protocol, podAddrs[family])
		here := c.whoami(c.node, protocol, towardPod[family])
		pickers := splice.Pickers{&ring{list: []netip.AddrPort{anywhere}}, &ring{list: []netip.AddrPort{here}}}
		external := expose(d, service.Port{ExternalLocal: true}, protocol, family, pickers)
		internal := expose(d, service.Port{InternalLocal: true}, protocol, family, pickers)
		for _, from := range []struct {
			ns    *netnstest.Namespace
			addr  netip.Addr
			iface string
			dial  netip.Addr
			want  netip.AddrPort
		}{
			{c.client, clientAddrs[family], "client0", towardClient[family], here},
			{c.pod, podAddrs[family], "pod0", towardPod[family], anywhere},
			{c.node, towardPod[family], "pod0", towardPod[family], anywhere},
		} {
			wantEndpoint(d, from.ns, protocol, netip.AddrPortFrom(from.dial, external), from.want)
			if got, want := <-questions, (asked{from.addr, index[from.iface]}); got != want {
				t.Errorf("%s from %s by %s: asked for %+v, want %+v", protocol, from.addr, from.iface, got, want)
			}
			// An internal policy does not concern a NodePort.
			wantEndpoint(d, from.ns, protocol, netip.AddrPortFrom(from.dial, internal), anywhere)
		}
	})
	if len(questions) > 0 {
		t.Errorf("asked for %+v where it does not matter", <-questions)
	}
}

// wantEndpoint dials and expects an answer, by TCP of that endpoint: the record of a session does not come at once.
func wantEndpoint(d *dataPath, ns *netnstest.Namespace, protocol inet.Protocol, dial, want netip.AddrPort) {
	d.t.Helper()
	if _, err := seenFrom(ns, protocol, dial); err != nil {
		d.t.Fatalf("%s to %s: %v", protocol, dial, err)
	}
	if protocol == inet.TCP {
		if rec := d.record(); rec.Endpoint.Addr != want {
			d.t.Errorf("%s to %s: led to %s, want %s", protocol, dial, rec.Endpoint.Addr, want)
		}
	}
}

func indexOf(t *trial, names ...string) map[string]int {
	t.Helper()
	index := map[string]int{}
	for _, name := range names {
		i, err := net.InterfaceByName(name)
		t.must(err)
		index[name] = i.Index
	}
	return index
}
