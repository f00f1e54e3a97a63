package explain

import (
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

// What records say of dials that failed, on every system.
var (
	refusedText = syscall.ECONNREFUSED.Error()
	noRoute     = syscall.EHOSTUNREACH.Error()
)

// past makes records of the scene that ended one second after the other, the last one a second ago.
type past struct {
	s   *scene
	all []*record.Record
}

func (p *past) add(n int, to int, edit func(*record.Record)) *past {
	for range n {
		r := &record.Record{
			ID: uint64(len(p.all)), CarriedBy: record.Userspace, Service: p.s.Port.Name, Client: netip.AddrPortFrom(pod, 4000),
			Endpoint: p.s.Port.Endpoints[to], Outcome: record.OutcomeOK, BytesFromClient: 10, BytesFromEndpoint: 10,
			FirstByte: time.Millisecond, Attempts: []record.Attempt{{Endpoint: p.s.Port.Endpoints[to].Addr, Times: 1,
				Proxy: netip.MustParseAddrPort("192.0.2.1:5000")}},
		}
		if edit != nil {
			edit(r)
		}
		p.all = append(p.all, r)
	}
	for i, r := range p.all {
		r.Start = now.Add(time.Duration(i-len(p.all)) * time.Second)
	}
	p.s.Records = p.all
	return p
}

func outcome(o record.Outcome) func(*record.Record) {
	return func(r *record.Record) { r.Outcome = o }
}

// notReached has the only dial of a record fail.
func notReached(why string) func(*record.Record) {
	return func(r *record.Record) {
		r.Outcome, r.Endpoint = record.OutcomeDialFailed, service.Endpoint{}
		r.BytesFromEndpoint, r.FirstByte, r.Connect = 0, -1, -1
		r.Attempts[0].Err, r.Attempts[0].Proxy = why, netip.AddrPort{}
	}
}

func firstByte(d time.Duration) func(*record.Record) {
	return func(r *record.Record) { r.FirstByte = d }
}

func byKernel(o record.Outcome) func(*record.Record) {
	return func(r *record.Record) { r.CarriedBy, r.Outcome, r.Attempts = record.Kernel, o, nil }
}

const cartA = "10.244.0.2:8080 (pod shop/cart-a)"

// What the last connections show decides the verdict, by endpoint.
func TestEvidence(t *testing.T) {
	for _, c := range []struct {
		name    string
		records func(*past)
		verdict string // empty: all is well
		status  Status
	}{
		{"all is well", func(p *past) { p.add(20, 0, nil).add(20, 1, nil) }, "", Good},
		{"one failure", func(p *past) { p.add(20, 0, nil).add(1, 0, outcome(record.OutcomeEndpointReset)) }, "", Good},
		{"one pod resets half", func(p *past) {
			p.add(20, 1, nil).add(10, 0, nil).add(10, 0, outcome(record.OutcomeEndpointReset))
		}, cartA + ": 10 of 20 connections of shop/cart:http were reset by it in the last 40s " +
			"(the other endpoints: 0 of 20).", Doubt},
		{"it has recovered", func(p *past) {
			p.add(10, 0, outcome(record.OutcomeEndpointReset)).add(10, 0, nil)
		}, "", Good},
		{"one in fifty", func(p *past) {
			p.add(98, 0, nil).add(2, 0, outcome(record.OutcomeEndpointReset))
		}, "", Good},
		{"long ago", func(p *past) {
			p.add(5, 0, outcome(record.OutcomeEndpointReset))
			for _, r := range p.all {
				r.Start = r.Start.Add(-time.Hour)
			}
		}, "", Good},
		{"before the Service changed", func(p *past) {
			p.add(5, 0, outcome(record.OutcomeEndpointReset))
			p.s.Changes = []changes.Change{{Time: now, Kind: changes.ModeChanged, Service: p.s.Port.Name}}
		}, "", Good},
		{"before the endpoint was ready again", func(p *past) {
			p.add(5, 0, notReached(refusedText)).add(5, 1, nil)
			p.s.Changes = []changes.Change{{Time: now.Add(-6 * time.Second), Kind: changes.EndpointReady, Service: p.s.Port.Name,
				Endpoint: p.s.Port.Endpoints[0].Addr}}
		}, "", Good},
		{"just after a change", func(p *past) {
			p.add(10, 1, nil).add(5, 0, notReached(refusedText))
			for _, ago := range []time.Duration{40, 7, 1} {
				p.s.Changes = append(p.s.Changes, changes.Change{Time: now.Add(-ago * time.Second),
					Kind: changes.EndpointRemoved, Old: "ready", Service: p.s.Port.Name,
					Endpoint: netip.MustParseAddrPort("10.244.0.9:8080"), Pod: "shop/cart-7"})
			}
			for _, effect := range []changes.Kind{changes.EndpointEjected, changes.EndpointBack, changes.LeftOut} {
				p.s.Changes = append(p.s.Changes, changes.Change{Time: now.Add(-6 * time.Second), Kind: effect,
					Service: p.s.Port.Name, Endpoint: p.s.Port.Endpoints[0].Addr})
			}
		}, "nothing listens at port 8080 there. The first was at 01:46:35 UTC, 2s after a change (shop/cart:http: endpoint " +
			"10.244.0.9:8080 (pod shop/cart-7) removed, was ready).", Doubt},
		{"of an endpoint that is gone", func(p *past) {
			p.add(5, 0, outcome(record.OutcomeEndpointReset)).add(5, 1, nil)
			p.s.Port.Endpoints = p.s.Port.Endpoints[1:]
		}, "", Good},
		{"nothing listens anywhere", func(p *past) {
			p.add(3, 0, notReached(refusedText)).add(3, 1, notReached(refusedText))
		}, "2 endpoints of shop/cart:http refused 6 of 6 dials in the last 6s: nothing listens at port 8080; is targetPort",
			Wrong},
		{"nothing listens at one endpoint", func(p *past) {
			p.add(3, 1, nil).add(3, 0, notReached(refusedText))
		}, cartA + " refused 3 of 3 dials of shop/cart:http in the last 6s: nothing listens at port 8080 there.", Doubt},
		{"nothing listens at the only endpoint", func(p *past) {
			p.add(3, 0, notReached(refusedText))
		}, cartA + " refused 3 of 3 dials", Wrong},
		{"no host", func(p *past) {
			p.add(3, 1, nil).add(3, 0, notReached(noRoute))
		}, cartA + " cannot be reached, in 3 of 3 dials of shop/cart:http in the last 6s: " + noRoute +
			": its host is gone, or a router", Doubt},
		{"resets that came before the dial had ended", func(p *past) {
			p.add(5, 1, nil).add(4, 0, nil).add(3, 0, notReached(syscall.ECONNRESET.Error()))
			p.add(2, 0, outcome(record.OutcomeEndpointReset))
		}, cartA + ": 5 of 9 connections of shop/cart:http were reset by it in the last 14s", Doubt},
		{"one refuses, and so is dialled seldom; another resets some", func(p *past) {
			p.add(3, 0, notReached(refusedText)).add(16, 1, nil).add(6, 1, outcome(record.OutcomeEndpointReset))
		}, cartA + " refused 3 of 3 dials of shop/cart:http in the last 25s: nothing listens at port 8080 there. The first " +
			"was at 01:46:15 UTC. Also: 10.244.1.3:8080 (pod shop/cart-b): 6 of 22 connections of shop/cart:http were reset " +
			"by it in the last 25s", Doubt},
		{"three fail", func(p *past) {
			p.s.Port.Endpoints = append(p.s.Port.Endpoints, endpoint("10.244.2.4:8080", "cart-c", false),
				endpoint("10.244.2.5:8080", "cart-d", false))
			p.add(5, 3, nil).add(4, 2, outcome(record.OutcomeEndpointReset)).add(3, 1, notReached(refusedText))
			p.add(1, 0, nil).add(3, 0, outcome(record.OutcomeEndpointReset))
		}, " 2 other endpoints fail too: 10.244.1.3:8080 (pod shop/cart-b), " + cartA + ".", Doubt},
		{"silence", func(p *past) {
			p.add(3, 1, nil).add(3, 0, notReached(record.TimedOut))
		}, cartA + " left 3 of 3 dials of shop/cart:http in the last 6s unanswered: its host is gone, a filter", Doubt},
		{"several errors", func(p *past) {
			p.add(3, 1, nil).add(1, 0, notReached(record.TimedOut)).add(2, 0, notReached(refusedText))
		}, cartA + " failed in 3 of 3 dials of shop/cart:http in the last 6s; the last error: " + refusedText + ".", Doubt},
		{"a lost host", func(p *past) {
			p.add(3, 1, nil).add(2, 0, outcome(record.OutcomeEndpointLost))
		}, cartA + ": 2 of 2 connections of shop/cart:http ended since its host answered no more", Doubt},
		{"no answer", func(p *past) {
			p.add(3, 1, nil).add(2, 0, func(r *record.Record) { r.BytesFromEndpoint, r.FirstByte = 0, -1 })
		}, cartA + ": 2 of 2 connections of shop/cart:http got no answer in the last 5s (the other endpoints: 0 of 3).",
			Doubt},
		{"no answer of anybody", func(p *past) {
			p.add(2, 0, func(r *record.Record) { r.BytesFromEndpoint, r.FirstByte = 0, -1 })
		}, "got no answer in the last 2s: fine only if what they send has no answer.", Doubt},
		{"nothing was sent", func(p *past) {
			p.add(5, 0, func(r *record.Record) { r.BytesFromClient, r.BytesFromEndpoint, r.FirstByte = 0, 0, -1 })
		}, "", Good},
		{"slow", func(p *past) {
			p.add(5, 1, nil).add(5, 0, firstByte(738*time.Millisecond))
		}, cartA + " is slow: its first byte takes 738ms, and 1ms of the others of shop/cart:http (median in the last 10s)",
			Doubt},
		{"all are slow", func(p *past) {
			p.add(5, 1, firstByte(700*time.Millisecond)).add(5, 0, firstByte(738*time.Millisecond))
		}, "", Good},
		{"quick, and others are quicker", func(p *past) {
			p.add(5, 1, firstByte(100*time.Microsecond)).add(5, 0, firstByte(40*time.Millisecond))
		}, "", Good},
		{"refused by a limit", func(p *past) {
			p.add(5, 1, nil).add(3, 0, func(r *record.Record) {
				r.Outcome, r.Endpoint, r.Attempts = record.OutcomeClientRate, service.Endpoint{}, nil
			})
		}, "portald refused 3 of 8 connections of shop/cart:http in the last 8s: more came of a client in a second", Doubt},
		{"resets that the kernel saw", func(p *past) {
			p.add(6, 1, byKernel(record.OutcomeOK))
			p.add(2, 0, byKernel(record.OutcomeReset))
		}, cartA + ": 2 of 2 connections of shop/cart:http were reset in the last 8s (the other endpoints: 0 of 6).", Doubt},
		{"failures of the kernel alone are recorded", func(p *past) {
			p.s.Port.Policy.KernelRecords = service.RecordsFailures
			p.add(2, 0, byKernel(record.OutcomeReset))
		}, cartA + ": 2 connections (what goes well is not recorded) of shop/cart:http were reset in the last 2s.", Doubt},
	} {
		s := newScene()
		c.records(&past{s: s})
		r := s.explain(t)
		if r.Verdict.Status != c.status || !strings.Contains(r.Verdict.Text, c.verdict) || r.Next == "" {
			t.Errorf("%s: verdict %+v, next %q; want %s: %s", c.name, r.Verdict, r.Next, c.status, c.verdict)
		}
	}
}

// A record concerns each endpoint that was dialled for it: a pod that refuses is never the endpoint of one.
func TestRecordsOfAPod(t *testing.T) {
	s := newScene()
	(&past{s: s}).add(3, 0, notReached(refusedText)).add(3, 1, nil)
	q, _ := Find(Query{Pod: "shop/cart-a", Service: service.Name{Namespace: "shop", Name: "cart-a"}, kind: "pod"},
		[]*service.Port{s.Port}, nil)
	about := q.About(s.Port)
	s.Records = slices.DeleteFunc(s.Records, func(r *record.Record) bool { return !about(r) })
	if len(s.Records) != 3 {
		t.Fatalf("%d records concern it", len(s.Records))
	}
	s.ask = "pod/shop/cart-a"
	if r := s.explain(t); !strings.HasPrefix(r.Verdict.Text, cartA+" refused 3 of 3 dials") {
		t.Errorf("verdict %+v", r.Verdict)
	}
}

// Open connections count as well as those that have ended.
func TestOpenConnectionsAreEvidence(t *testing.T) {
	for _, c := range []struct {
		name    string
		live    func(*record.Live)
		verdict string
	}{
		{"they are quiet", func(l *record.Live) { l.BytesToEndpoint, l.BytesFromEndpoint = 10, 10 }, ""},
		{"they were answered a moment ago", func(l *record.Live) { l.LastMoved = now }, ""},
		{"no answer", nil, "3 of 3 open connections to " + cartA + " as an endpoint of shop/cart:http have sent something, " +
			"and got nothing back for up to 12s: fine only if what they send has no answer."},
		{"it takes nothing", func(l *record.Live) { l.BytesToEndpoint = 5 },
			"have bytes that it does not take for up to 12s."},
		{"segments are lost", func(l *record.Live) {
			l.LastMoved, l.EndpointTCP = now, record.TCPInfo{Known: true, Lost: 1, Retransmits: 4}
		}, "send segments again and again, which its host does not acknowledge"},
		{"no endpoint answers", func(l *record.Live) {
			l.State, l.Endpoint = record.StateDialing, service.Endpoint{}
		}, "3 connections of shop/cart:http waited for an endpoint to answer for up to 20s."},
	} {
		s := newScene()
		for range 3 {
			l := record.Live{
				Service: s.Port.Name, Start: now.Add(-20 * time.Second), LastMoved: now.Add(-12 * time.Second),
				State: record.StateOpen, Endpoint: s.Port.Endpoints[0], BytesFromClient: 10, BytesToEndpoint: 10,
			}
			if c.live != nil {
				c.live(&l)
			}
			s.Live = append(s.Live, l)
		}
		r := s.explain(t)
		if (c.verdict == "") != (r.Verdict.Status == Good) || !strings.Contains(r.Verdict.Text, c.verdict) || r.Next == "" {
			t.Errorf("%s: verdict %+v, next %q", c.name, r.Verdict, r.Next)
		}
	}
}

// Flows that the kernel carries are evidence too, where it carries the Service.
func TestFlowsWithoutAnswer(t *testing.T) {
	s := newScene()
	s.Port.Mode = service.ModeKernel
	s.Applied.Mode = service.ModeKernel
	for i := range uint16(3) {
		s.Flows = append(s.Flows, flows.Flow{Protocol: inet.TCP, From: netip.AddrPortFrom(pod, 4000+i), To: clusterIP,
			Replier: s.Port.Endpoints[0].Addr, State: flows.SynSent})
	}
	const want = "3 of 3 tracked flows to " + cartA + " as an endpoint of shop/cart:http have no answer: its host is gone"
	if r := s.explain(t); !strings.HasPrefix(r.Verdict.Text, want) {
		t.Errorf("verdict %+v", r.Verdict)
	}
	all := s.Flows
	s.Flows = all[:1]
	const one = "1 of 1 tracked flow to " + cartA + " as an endpoint of shop/cart:http has no answer: its host is gone"
	if r := s.explain(t); !strings.HasPrefix(r.Verdict.Text, one) {
		t.Errorf("verdict %+v", r.Verdict)
	}
	s.Flows = all
	for i := range s.Flows {
		s.Flows[i].Status = flows.SeenReply
	}
	all[0].Status = 0 // a packet may be lost
	if r := s.explain(t); r.Verdict.Status != Good {
		t.Errorf("verdict %+v", r.Verdict)
	}
	all[0].Status = flows.SeenReply
	if r := s.explain(t); r.Verdict.Status != Good {
		t.Errorf("verdict %+v", r.Verdict)
	}
}
