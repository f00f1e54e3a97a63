package explain

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

var client = netip.AddrPortFrom(pod, 40001)

func asksClient(t *testing.T, what string, c *Client) *Report {
	t.Helper()
	q, err := Parse(what, "")
	if err != nil {
		t.Fatal(err)
	}
	return ExplainClient(q, newScene().node, c, now)
}

// endedAs are records of a client, of connections that ended in the last minute.
func endedAs(outcomes ...record.Outcome) (all []*record.Record) {
	s := newScene()
	for i, o := range outcomes {
		all = append(all, &record.Record{ID: uint64(i + 1), Service: s.Port.Name, Client: client, ClientPod: "web/front-1",
			Start: now.Add(-time.Minute), Duration: time.Second, Outcome: o, Endpoint: s.Port.Endpoints[0]})
	}
	return all
}

func TestClient(t *testing.T) {
	s := newScene()
	live := record.Live{ID: 7, Service: s.Port.Name, Client: client, Endpoint: s.Port.Endpoints[1],
		State: record.StateOpen, Start: now.Add(-time.Hour), LastMoved: now, Removed: true}
	for name, test := range map[string]struct {
		of      Client
		status  Status
		verdict string
		says    string
	}{
		"well": {
			Client{Records: endedAs("ok", "ok")}, Good,
			"10.244.0.9 has 0 open connections through portald, and 0 of its last 2 connections failed.", "none failed",
		},
		"fails": {
			Client{Records: endedAs("ok", "endpoint_reset", "endpoint_reset")}, Doubt,
			"2 of the last 3 connections of 10.244.0.9 to shop/cart:http failed, the last one as endpoint_reset.", "2 failed",
		},
		"is refused": {
			Client{Records: endedAs("client_rate", "client_rate")}, Doubt,
			"more came of a client in a second than may (connectionRatePerClient).", "client_rate",
		},
		"failed once": {Client{Records: endedAs("ok", "endpoint_reset", "ok")}, Good, "and 1 of its last 3", "1 failed"},
		"has all it may": {
			Client{Live: []record.Live{live}, Limits: []ClientLimit{{s.Port.Name, 1, 1}}}, Doubt,
			"10.244.0.9 has as many connections to shop/cart:http as a client may, 1: new ones are refused.",
			"id 7, port 40001 to shop/cart:http, 10.244.1.3:8080 (shop/cart-b), which is no endpoint any more: open for 1h",
		},
		"to a removed endpoint": {
			Client{Live: []record.Live{live}}, Doubt, "10.244.0.9 has 1 open connection to endpoints that are none any more",
			"which is no endpoint any more",
		},
		"is bound": {
			Client{Bound: []Binding{{s.Port.Name, s.Port.Endpoints[0].Addr}}}, Good, "has 0 open connections",
			"shop/cart:http: bound to 10.244.0.2:8080",
		},
		"waits in the kernel": {
			Client{Flows: []flows.Flow{{Protocol: inet.TCP, From: client, To: clusterIP, Replier: s.Port.Endpoints[0].Addr,
				State: flows.SynSent}}}, Good, "has 0 open connections", "SYN_SENT, no answer yet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := asksClient(t, "10.244.0.9", &test.of)
			if r.Verdict.Status != test.status || !strings.Contains(r.Verdict.Text, test.verdict) || r.Next == "" {
				t.Errorf("verdict %+v, next %q", r.Verdict, r.Next)
			}
			if !strings.Contains(text(r), test.says) {
				t.Errorf("it does not say %q:\n%s", test.says, text(r))
			}
		})
	}
	if r := asksClient(t, "client/10.244.0.77", &Client{}); r.Known() || r.Verdict.Status != Wrong {
		t.Errorf("a client that is not known: %+v", r.Verdict)
	}
}

// A client is asked for by its address, with its port or without, or by its pod.
func TestOfClient(t *testing.T) {
	for what, want := range map[string]bool{
		"10.244.0.9": true, "client/10.244.0.9": true, "10.244.0.9:40001": true, "10.244.0.9:40002": false,
		"10.244.0.8": false, "client/web/front-1": true, "client/pod/web/front-1": true,
		"client/front-1": true, "client/shop/front-1": false,
	} {
		q, err := Parse(what, "")
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		may, _ := q.IsClient()
		if is := may && q.OfClient(client, "web/front-1"); is != want {
			t.Errorf("%s: %v", what, is)
		}
	}
}

// A name without a namespace is that of a Service, or else of a pod, if there is one alone.
func TestNameWithoutNamespace(t *testing.T) {
	s := newScene()
	other := *s.Port
	other.Name.Namespace, other.Name.Name = "test", "till"
	twin := *s.Port
	twin.Name.Namespace = "test"
	for _, test := range []struct {
		ask       string
		ports     []*service.Port
		found     int
		ambiguous []string
	}{
		{"cart", []*service.Port{s.Port, &other}, 1, nil},
		{"cart:http", []*service.Port{s.Port, &other}, 1, nil},
		{"cart", []*service.Port{s.Port, &twin}, 0, []string{"shop/cart", "test/cart"}},
		{"cart-a", []*service.Port{s.Port}, 1, nil},
		{"pod/cart-a", []*service.Port{s.Port}, 1, nil},
		{"pod/cart", []*service.Port{s.Port}, 0, nil},
		{"service/cart-a", []*service.Port{s.Port}, 0, nil},
	} {
		q, err := Parse(test.ask, "")
		if err != nil {
			t.Fatal(err)
		}
		q, found := Find(q, test.ports, s.node.Local)
		if len(found) != test.found || !slices.Equal(q.Ambiguous, test.ambiguous) {
			t.Errorf("%s: %d found, ambiguous: %v", test.ask, len(found), q.Ambiguous)
		}
		if len(test.ambiguous) == 0 {
			continue
		}
		r := Explain(q, s.node, nil, now)
		if want := `"cart" may be any of 2: name one with its namespace.`; r.Verdict.Text != want || r.Known() {
			t.Errorf("verdict %+v", r.Verdict)
		}
		if got := Nearest(q, test.ports); !slices.Equal(got, test.ambiguous) {
			t.Errorf("nearest %v", got)
		}
	}
}

// An endpoint that is none any more is known by its connections.
func TestRemovedEndpoint(t *testing.T) {
	s := newScene()
	gone := endpoint("10.244.1.9:8080", "cart-x", false)
	for ask, known := range map[string]bool{
		"shop/cart-x": true, "pod/shop/cart-x": true, "pod/cart-x": true, "10.244.1.9": true, "10.244.1.9:8080": true,
		"10.244.1.9:9": false, "service/shop/cart-x": false, "shop/cart-y": false, "client/10.244.1.9": false,
	} {
		q, err := Parse(ask, "")
		if err != nil {
			t.Fatal(err)
		}
		q, names := FindRemoved(q, func(yield func(service.PortName, service.Endpoint) bool) { yield(s.Port.Name, gone) })
		if known != slices.Equal(names, []service.PortName{s.Port.Name}) {
			t.Errorf("%s: %v", ask, names)
		}
		if !known {
			continue
		}
		of := s.Subject
		of.Live = []record.Live{{Service: s.Port.Name, Client: client, Endpoint: gone, State: record.StateOpen, Removed: true,
			Start: now.Add(-time.Minute), LastMoved: now}}
		of.Flows = []flows.Flow{
			{Protocol: inet.TCP, From: client, To: clusterIP, Replier: gone.Addr, Status: flows.SeenReply},
			{Protocol: inet.TCP, From: client, To: clusterIP, Replier: s.Port.Endpoints[0].Addr, Status: flows.SeenReply},
		}
		r := Explain(q, s.node, []Subject{of}, now)
		const want = "10.244.1.9:8080 (pod shop/cart-x) is no endpoint of shop/cart:http any more: 1 open connection to it"
		if r.Verdict.Status != Doubt || !strings.HasPrefix(r.Verdict.Text, want) {
			t.Errorf("%s: verdict %+v", ask, r.Verdict)
		}
		if all := text(r); strings.Count(all, "led to") != 1 || !strings.Contains(all, "led to 10.244.1.9:8080") {
			t.Errorf("%s: flows of others:\n%s", ask, all)
		}
	}
}
