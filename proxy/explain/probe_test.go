package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/reach"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// probe gives both endpoints a probe's results.
func (s *scene) probe(a, b reach.Result) {
	a.Began, b.Began = now, now
	targets := Targets(Query{}, []Subject{s.Subject})
	all := []Subject{s.Subject}
	SetProbes(all, targets, []reach.Result{a, b})
	s.Subject = all[0]
}

// A probe tells host, port and network apart, and what was recorded before does not.
func TestProbeVerdicts(t *testing.T) {
	none := reach.Nothing
	for _, c := range []struct {
		name       string
		of         reach.Result
		host, says string
	}{
		{"it refuses", reach.Result{Connect: reach.Refused, Closed: reach.Refused}, "up", "nothing listens (refused)"},
		{"its host refuses another port", reach.Result{Connect: none, Closed: reach.Refused}, "up",
			"its host is up (refuses another port), and this port does not answer: a filter, or the pod's accept queue is full"},
		{"its host answers ping", reach.Result{Connect: none, Closed: none, Echo: reach.Answered}, "up",
			"its host is up (answers ping), and this port does not answer: a filter, or the pod's accept queue is full"},
		{"its host answers for its address", reach.Result{Connect: none, Closed: none, Echo: none,
			Path: reach.Path{Neighbor: "REACHABLE", Confirmed: now}}, "up",
			"its host is up (neighbour REACHABLE, answered 0s ago), and this port does not answer: a filter, or the pod's " +
				"accept queue is full"},
		{"its host does not answer", reach.Result{Connect: none, Closed: none, Echo: none,
			Path: reach.Path{Neighbor: reach.Failed}}, "neighbour FAILED",
			"its host does not answer (neighbour FAILED): pod or node is gone, or the network"},
		{"nothing answers behind a router", reach.Result{Connect: none, Closed: none, Echo: none,
			Path: reach.Path{Neighbor: "REACHABLE", Via: here}}, "no answer",
			"its host does not answer (neither this port, nor another, nor ping): pod or node is gone, the network, or a " +
				"filter drops all"},
		{"and ping may not be sent", reach.Result{Connect: none, Closed: none}, "no answer",
			"its host does not answer (neither this port, nor another; a ping may not be sent): pod or node is gone, the " +
				"network, or a filter drops all"},
		{"a router says so", reach.Result{Connect: reach.Unreachable, Closed: reach.Unreachable}, "no answer",
			"a router says that it leads to no such host: pod or node is gone, or the network"},
		{"a filter says so", reach.Result{Connect: reach.Unreachable, Closed: reach.Refused}, "up",
			"its host is up (refuses another port), and a filter or a router rejects packets to this port"},
		{"no route", reach.Result{Connect: reach.NoRoute, Path: reach.Path{NoRoute: "network is unreachable"}}, "",
			"no route (network is unreachable)"},
		{"prohibited", reach.Result{Connect: reach.Forbidden, Path: reach.Path{NoRoute: "the route is prohibited"}}, "",
			"no route (the route is prohibited)"},
		{"not let out", reach.Result{Connect: reach.Forbidden, Closed: reach.Forbidden}, "",
			"this node does not let it out: a program filters what sockets connect to"},
	} {
		s := newScene()
		s.probe(c.of, reach.Result{Connect: reach.Accepted, Closed: reach.Refused, Took: 1500 * time.Microsecond})
		r := s.explain(t)
		want := cartA + " does not take a probe as an endpoint of shop/cart:http: " + c.says + "."
		if r.Verdict.Status != Doubt || r.Verdict.Text != want || r.Next == "" {
			t.Errorf("%s: verdict %+v, next %q; want %q", c.name, r.Verdict, r.Next, want)
		}
		rows := []Probe{
			{Endpoint: s.Port.Endpoints[0].Addr, Pod: "shop/cart-a", Connect: string(c.of.Connect), Host: c.host, Status: Doubt,
				Verdict: c.says},
			{Endpoint: s.Port.Endpoints[1].Addr, Pod: "shop/cart-b", Connect: "accepted", Host: "up", TookMS: 1.5, Status: Good,
				Verdict: "accepts"},
		}
		if !slices.Equal(r.Probes, rows) {
			t.Errorf("%s: rows %+v, want %+v", c.name, r.Probes, rows)
		}
		s = newScene()
		s.probe(c.of, c.of)
		if r = s.explain(t); r.Verdict.Status != Wrong || !strings.Contains(r.Verdict.Text, "(nor do 1 more of 2): ") {
			t.Errorf("%s, of both: verdict %+v", c.name, r.Verdict)
		}
	}
}

// A probe explains what was recorded.
func TestProbeExplainsRecords(t *testing.T) {
	accepted := reach.Result{Connect: reach.Accepted, Closed: reach.Refused}
	for name, c := range map[string]struct {
		of   reach.Result
		says string
	}{
		"it accepts now": {accepted, "unanswered: a probe was accepted just now, so the fault has ended, or comes and " +
			"goes."},
		"it refuses now": {reach.Result{Connect: reach.Refused}, "nothing listens (refused)"},
		"its host is up": {reach.Result{Connect: reach.Nothing, Closed: reach.Refused},
			"its host is up (refuses another port)"},
		"its host is not": {reach.Result{Connect: reach.Nothing, Path: reach.Path{Neighbor: reach.Failed}},
			"(neighbour FAILED)"},
	} {
		s := newScene()
		(&past{s: s}).add(3, 1, nil).add(3, 0, notReached(record.TimedOut))
		s.probe(c.of, accepted)
		if r := s.explain(t); r.Verdict.Status != Doubt || !strings.Contains(r.Verdict.Text, c.says) {
			t.Errorf("%s: verdict %+v, want %q", name, r.Verdict, c.says)
		}
	}
	s := newScene()
	s.probe(accepted, accepted)
	r := s.explain(t)
	if r.Verdict.Status != Good || len(r.Probes) != 2 || !strings.Contains(text(r), "port 1 of its host") {
		t.Errorf("all is well: %+v, %d probes", r.Verdict, len(r.Probes))
	}
	if r := newScene().explain(t); len(r.Probes) > 0 || strings.Contains(text(r), "Probe") {
		t.Error("no probe was asked for")
	}
}

// Of UDP the host alone is asked.
func TestProbeOfUDP(t *testing.T) {
	s := newScene()
	s.Port.Name.Protocol = inet.UDP
	s.apply(s.Applied.Claims[0].Target)
	for _, target := range Targets(Query{}, []Subject{s.Subject}) {
		if target.Connect {
			t.Errorf("%s is connected to", target.At)
		}
	}
	s.probe(reach.Result{Closed: reach.Nothing, Path: reach.Path{Neighbor: reach.Failed}},
		reach.Result{Closed: reach.Refused})
	r := s.explain(t)
	gone := "(neighbour FAILED): pod or node is gone, or the network."
	if !strings.HasSuffix(r.Verdict.Text, gone) || len(r.Probes) != 2 ||
		r.Probes[1].Verdict != "its host is up (refuses another port); only a client can tell whether the port answers" {
		t.Errorf("verdict %+v, rows %+v", r.Verdict, r.Probes)
	}
}

// Targets are endpoints of what was asked for, those first of which something failed, each once, and not too many.
func TestTargets(t *testing.T) {
	s := newScene()
	s.Port.Endpoints = nil
	for i := range 40 {
		x := endpoint(fmt.Sprintf("10.244.0.%d:8080", i+2), fmt.Sprint("cart-", i), true)
		s.Port.Endpoints = append(s.Port.Endpoints, x)
	}
	s.Port.Endpoints[0].Ready = false
	(&past{s: s}).add(1, 30, notReached(record.TimedOut))
	at := func(i int) netip.AddrPort { return s.Port.Endpoints[i].Addr }
	got := Targets(Query{}, []Subject{s.Subject, s.Subject})
	if len(got) != MostProbed || got[0].At != at(30) || got[1].At != at(1) || got[15].At != at(15) {
		t.Errorf("%v", got)
	}
	all := []Subject{s.Subject}
	SetProbes(all, got, make([]reach.Result, len(got)))
	s.Subject = all[0]
	if r := s.explain(t); !strings.Contains(text(r), "24 more were not probed: name a pod") {
		t.Errorf("it does not say how many are left out:\n%s", text(r))
	}
	one := Targets(Query{Pod: "shop/cart-0"}, []Subject{s.Subject})
	if len(one) != 1 || one[0].At != at(0) {
		t.Errorf("of one pod: %v", one)
	}
	if q, _ := Parse("client/10.0.0.1", ""); q.MayProbe() == nil {
		t.Error("a client may be probed")
	}
	if q, _ := Parse("shop/cart", ""); q.MayProbe() != nil {
		t.Errorf("a Service: %v", q.MayProbe())
	}
	gone := s.Subject
	gone.Port = &service.Port{Name: s.Port.Name}
	if got := Targets(Query{}, []Subject{gone}); len(got) > 0 {
		t.Errorf("addresses in records that are no endpoints are probed: %v", got)
	}
}
