package explain

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

// opens adds open connections to an endpoint, of so many clients, that began some time ago.
func (s *scene) opens(n, endpoint, clients int, ago time.Duration) {
	for i := range n {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 9, byte(i % clients)}), uint16(4000+i))
		s.Live = append(s.Live, record.Live{Service: s.Port.Name, State: record.StateOpen, Client: client,
			Endpoint: s.Port.Endpoints[endpoint], Start: now.Add(-ago), LastMoved: now, Portal: service.ClusterIP})
	}
}

// ended adds records of connections that went well.
func (s *scene) ended(n, endpoint int) {
	for i := range n {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 9, byte(i)}), uint16(4000+i))
		s.Records = append(s.Records, &record.Record{
			Service: s.Port.Name, Client: client, Outcome: record.OutcomeOK, Start: now.Add(-time.Second),
			Endpoint: s.Port.Endpoints[endpoint], BytesFromEndpoint: 1, FirstByte: -1,
			Attempts: []record.Attempt{{Endpoint: s.Port.Endpoints[endpoint].Addr, Proxy: clusterIP, Times: 1}},
		})
	}
}

// happened adds a change of an endpoint.
func (s *scene) happened(kind changes.Kind, endpoint int, ago time.Duration) {
	s.Changes = append(s.Changes, changes.Change{Time: now.Add(-ago), Kind: kind, Service: s.Port.Name,
		Endpoint: s.Port.Endpoints[endpoint].Addr, New: "ready"})
}

// flowsTo adds flows that the kernel carries to an endpoint.
func (s *scene) flowsTo(n, endpoint int, start time.Time) {
	for i := range n {
		f := flows.Flow{Protocol: s.Port.Name.Protocol, State: flows.Established, Status: flows.SeenReply, To: clusterIP,
			From: netip.AddrPortFrom(pod, uint16(4000+i)), Replier: s.Port.Endpoints[endpoint].Addr}
		if !start.IsZero() {
			f.Start = start.UnixNano()
		}
		s.Flows = append(s.Flows, f)
	}
}

func (s *scene) inKernel() {
	s.Port.Mode = service.ModeKernel
	var all []portal.Endpoint
	for _, x := range s.Port.Endpoints {
		all = append(all, portal.Endpoint{Addr: x.Addr})
	}
	s.apply(portal.Spread{Pool: &portal.Pool{Cluster: all}})
}

// Uneven load is explained by what is known of it, with what to set, and the verdict stays as good as it was.
func TestUnevenLoad(t *testing.T) {
	const unexplained = "nothing that this node knows explains it"
	for _, c := range []struct {
		name string
		edit func(*scene)
		says []string
		not  []string
	}{
		{"an endpoint is younger", func(s *scene) {
			s.opens(40, 0, 40, time.Hour)
			s.happened(changes.EndpointAdded, 1, time.Minute)
		}, []string{
			"10.244.0.2:8080 (pod shop/cart-a) has 40 of the 40 open connections, 10.244.1.3:8080 (pod shop/cart-b) has 0, " +
				"and an even share is 20",
			"10.244.1.3:8080 came 1m ago, after 40 of the 40 to 10.244.0.2:8080 were made",
			"portald.io/max-age: 10m±20% closes old ones", "portald.io/algorithm: least-connections leads new ones",
		}, []string{unexplained, "affinity", "are of one client", "last longer"}},
		{"and what to set is set", func(s *scene) {
			s.opens(40, 0, 40, time.Hour)
			s.happened(changes.EndpointReady, 1, time.Minute)
			s.Port.Policy.Algorithm = service.LeastConnections
			s.Port.Policy.MaxAge = service.Age{Time: 10 * time.Minute, Jitter: 20}
		}, []string{"max-age 10m0s±20% closes them at that age"}, []string{"least-connections"}},
		{"it is younger, but not younger than these", func(s *scene) {
			s.opens(40, 0, 40, time.Second)
			s.happened(changes.EndpointAdded, 1, time.Minute)
		}, []string{unexplained, "portald.io/algorithm: least-connections"}, []string{"max-age"}},
		{"affinity, and one client", func(s *scene) {
			s.Port.Affinity = 3 * time.Hour
			s.opens(30, 0, 1, time.Minute)
			s.opens(2, 1, 2, time.Minute)
			s.Bindings = map[netip.AddrPort]int{s.Port.Endpoints[0].Addr: 1, s.Port.Endpoints[1].Addr: 2}
		}, []string{"ClientIP affinity: 1 client is bound to 10.244.0.2:8080, 2 to 10.244.1.3:8080",
			"30 of those to 10.244.0.2:8080 are of one client, 10.244.9.0",
			"sessionAffinity: None, or a shorter timeoutSeconds than 10800"}, []string{unexplained}},
		{"source hash", func(s *scene) {
			s.Port.Policy.Algorithm = service.SourceHash
			s.opens(30, 0, 30, time.Minute)
		}, []string{"algorithm source-hash: each of 30 clients has one endpoint",
			"portald.io/algorithm: round-robin spreads"},
			[]string{unexplained, "are of one client"}},
		{"one is drained", func(s *scene) {
			s.opens(30, 0, 30, time.Minute)
			s.Drained = func(at netip.AddrPort) bool { return at == s.Port.Endpoints[1].Addr }
		}, []string{"10.244.1.3:8080 is drained; portald drain --undo 10.244.1.3:8080 ends that"}, []string{unexplained}},
		{"one is ejected", func(s *scene) {
			s.opens(30, 0, 30, time.Minute)
			s.Ejected = func(at netip.AddrPort) string {
				return map[bool]string{true: "ejected, since it failed"}[at == s.Port.Endpoints[1].Addr]
			}
		}, []string{"10.244.1.3:8080 is ejected, since it failed"}, []string{unexplained}},
		{"one was ejected", func(s *scene) {
			s.opens(30, 0, 30, time.Second)
			for range 2 {
				s.happened(changes.EndpointEjected, 1, time.Minute)
			}
		}, []string{"10.244.1.3:8080 was ejected 2 times in the last 10m"}, []string{unexplained}},
		{"a Local policy", func(s *scene) {
			s.Port.ExternalLocal = true
			s.opens(30, 0, 30, time.Minute)
			for i := range s.Live {
				s.Live[i].Portal = service.NodePort
			}
		}, []string{"30 of them came by frontends whose traffic policy is Local"}, []string{unexplained}},
		{"a slow start", func(s *scene) {
			s.Port.Policy.SlowStart = time.Hour
			s.opens(30, 0, 30, time.Second)
			s.opens(2, 1, 2, time.Second)
			s.happened(changes.EndpointAdded, 1, time.Minute)
		}, []string{"slow-start 1h0m0s: 10.244.1.3:8080 came 1m ago"}, []string{unexplained}},
		{"those of one last longer", func(s *scene) {
			s.opens(30, 0, 30, time.Minute)
			s.ended(15, 0)
			s.ended(15, 1)
		}, []string{"new ones are spread evenly: those to 10.244.0.2:8080 last longer"}, []string{unexplained}},
		{"recent ones", func(s *scene) { s.ended(30, 0) }, []string{
			"10.244.0.2:8080 (pod shop/cart-a) has 30 of the 30 recent connections", unexplained}, nil},
		{"in the kernel, with times", func(s *scene) {
			s.inKernel()
			s.flowsTo(40, 0, now.Add(-time.Hour))
			s.happened(changes.EndpointAdded, 1, time.Minute)
		}, []string{"10.244.1.3:8080 came 1m ago, after 40 of the 40", "portald.io/max-age: 10m±20% (with portald.io/mode: " +
			"userspace) closes"}, []string{unexplained}},
		{"in the kernel, without", func(s *scene) {
			s.inKernel()
			s.flowsTo(40, 0, time.Time{})
			s.happened(changes.EndpointAdded, 1, time.Minute)
		}, []string{"10.244.1.3:8080 came 1m ago: connections that were made before stay"}, []string{unexplained}},
		{"affinity by the kernel", func(s *scene) {
			s.inKernel()
			s.Port.Affinity = time.Hour
			s.flowsTo(40, 0, time.Time{})
		}, []string{"ClientIP affinity: the kernel binds each of 1 client to one endpoint",
			"40 of those to 10.244.0.2:8080 are of one client"},
			nil},
	} {
		s := newScene()
		c.edit(s)
		r := s.explain(t)
		all := text(r)
		_, note, found := strings.Cut(all, "= Uneven load\n")
		note, _, _ = strings.Cut(note, "\n= ")
		for _, part := range c.says {
			if !strings.Contains("\n"+note, "\n"+part) {
				t.Errorf("%s: no %q in\n%s", c.name, part, note)
			}
		}
		for _, part := range c.not {
			if strings.Contains(note, part) {
				t.Errorf("%s: %q in\n%s", c.name, part, note)
			}
		}
		if !found || r.Verdict.Status != Good {
			t.Errorf("%s: the verdict is %+v\n%s", c.name, r.Verdict, all)
		}
	}
}

// What is small, even, or a part of all is no load to explain.
func TestNoNoteOfEvenLoad(t *testing.T) {
	for name, edit := range map[string]func(*scene){
		"nothing":        func(*scene) {},
		"few":            func(s *scene) { s.opens(12, 0, 12, time.Hour) },
		"even":           func(s *scene) { s.opens(100, 0, 9, time.Hour); s.opens(100, 1, 9, time.Hour) },
		"by chance":      func(s *scene) { s.opens(60, 0, 9, time.Hour); s.opens(40, 1, 9, time.Hour) },
		"one endpoint":   func(s *scene) { s.Port.Endpoints = s.Port.Endpoints[:1]; s.opens(100, 0, 9, time.Hour) },
		"not ready":      func(s *scene) { s.Port.Endpoints[1].Ready = false; s.opens(100, 0, 9, time.Hour) },
		"one client":     func(s *scene) { s.from = pod.String(); s.opens(100, 0, 1, time.Hour) },
		"one endpoint's": func(s *scene) { s.ask = "pod/shop/cart-a"; s.opens(100, 0, 1, time.Hour) },
		"old records":    func(s *scene) { s.ended(50, 0); s.happened(changes.EndpointAdded, 1, 0) },
		"failures alone are recorded": func(s *scene) {
			s.inKernel()
			s.Port.Policy.KernelRecords = service.RecordsFailures
			s.ended(50, 0)
		},
		"of the other family": func(s *scene) {
			x := endpoint("[fd00::9]:8080", "cart-a", true)
			s.Port.Endpoints = append(s.Port.Endpoints, x)
			s.opens(50, 0, 9, time.Hour)
			s.opens(50, 1, 9, time.Hour)
		},
	} {
		s := newScene()
		edit(s)
		if r := s.explain(t); strings.Contains(text(r), "Uneven load") {
			t.Errorf("%s:\n%s", name, text(r))
		}
	}
}
