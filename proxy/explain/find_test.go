package explain

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

func TestFind(t *testing.T) {
	s := newScene()
	other := *s.Port
	other.Name.Name, other.Exposures, other.Endpoints = "other", nil, nil
	ports := []*service.Port{&other, s.Port}
	for ask, want := range map[string]string{
		"shop/cart":           "shop/cart:http/tcp",
		"shop/cart:http":      "shop/cart:http/tcp",
		"shop/cart:80":        "shop/cart:http/tcp",
		"shop/cart/tcp":       "shop/cart:http/tcp",
		"service/shop/cart":   "shop/cart:http/tcp",
		"svc/shop/other":      "shop/other:http/tcp",
		"10.96.0.10:80":       "shop/cart:http/tcp",
		"10.96.0.10":          "shop/cart:http/tcp",
		"10.96.0.10:80/tcp":   "shop/cart:http/tcp",
		"192.0.2.1:30080":     "shop/cart:http/tcp",
		"203.0.113.7:80":      "shop/cart:http/tcp",
		"10.244.1.3:8080":     "shop/cart:http/tcp as 10.244.1.3:8080",
		"10.244.1.3":          "shop/cart:http/tcp as 10.244.1.3:0",
		"shop/cart-b":         "shop/cart:http/tcp as shop/cart-b",
		"pod/shop/cart-b":     "shop/cart:http/tcp as shop/cart-b",
		"service/shop/cart-b": "", "pod/shop/cart": "", "10.96.0.10:80/udp": "", "10.96.0.10:81": "", "shop/cart:dns": "",
		"192.0.2.2:30080": "", "shop/none": "",
	} {
		q, err := Parse(ask, "")
		if err != nil {
			t.Fatal(err)
		}
		q, found := Find(q, ports, s.node.Local)
		got := ""
		if len(found) == 1 {
			got = found[0].Name.String()
		}
		if q.Pod != "" {
			got += " as " + q.Pod
		}
		if q.Endpoint.IsValid() {
			got += " as " + q.Endpoint.String()
		}
		if got != want {
			t.Errorf("%s: found %q, want %q", ask, got, want)
		}
	}
	for _, wrong := range []string{"", "shop/", "/cart", "a/b/c", "10.96.0.300:80", "0", "client/", "client/a/b/c"} {
		if _, err := Parse(wrong, ""); err == nil || !strings.Contains(err.Error(), "must be [NAMESPACE/]NAME") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	// A name that none can be is compared with none: that would take seconds.
	for _, long := range []string{
		strings.Repeat("n", 64) + "/cart", "shop/" + strings.Repeat("c", 254), "shop/cart:" + strings.Repeat("p", 64),
		"pod/" + strings.Repeat("n", 16<<10) + "/a",
	} {
		if _, err := Parse(long, ""); err == nil || !strings.Contains(err.Error(), "is longer than names") {
			t.Errorf("%.20s...: %v", long, err)
		}
	}
	if _, err := Parse(strings.Repeat("n", 63)+"/"+strings.Repeat("c", 253), ""); err != nil {
		t.Error(err)
	}
	if _, err := Parse("shop/cart", "here"); err == nil || !strings.Contains(err.Error(), "address of a client") {
		t.Errorf("from here: %v", err)
	}
}

func TestNearest(t *testing.T) {
	s := newScene()
	far := *s.Port
	far.Name.Namespace, far.Name.Name, far.Endpoints = "kube-system", "coredns", nil
	ports := []*service.Port{s.Port, &far}
	for ask, want := range map[string][]string{
		"shop/crt":    {"shop/cart"},
		"store/cart":  {"shop/cart"},
		"shop/cart-c": {"pod/shop/cart-a", "pod/shop/cart-b", "shop/cart"},
		"a/zzzzzzzzz": nil,
		"10.0.0.1:80": nil,
	} {
		q, err := Parse(ask, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := Nearest(q, ports); !slices.Equal(got, want) {
			t.Errorf("%s: nearest %q, want %q", ask, got, want)
		}
	}
}

func TestNothingIsKnown(t *testing.T) {
	s := newScene()
	s.ask = "shop/none"
	if r := s.explain(t); r.Known() || r.Verdict.Status != Wrong || r.Next == "" {
		t.Errorf("%+v", r)
	}
}

// A pod is explained by what it is for each service port.
func TestPod(t *testing.T) {
	s := newScene()
	s.ask = "shop/cart-b"
	if r := s.explain(t); r.Verdict.Text != "As an endpoint of shop/cart:http, pod shop/cart-b is used." ||
		strings.Contains(text(r), "cart-a") {
		t.Errorf("%+v\n%s", r.Verdict, text(r))
	}
	s.Port.Endpoints[1].Ready = false
	const unready = "is not used: it is not ready."
	if r := s.explain(t); r.Verdict.Status != Doubt || !strings.HasSuffix(r.Verdict.Text, unready) {
		t.Errorf("%+v", r.Verdict)
	}
}

// A connection is explained by its Service, for its client, at the frontend that it dialled.
func TestConnection(t *testing.T) {
	s := newScene()
	client := netip.AddrPortFrom(pod, 4000)
	live := &record.Live{
		ID: 5, Service: s.Port.Name, Client: client, OriginalDst: clusterIP, State: record.StateWaiting, Attempts: 4,
		Start: now, LastMoved: now,
	}
	onRemoved := *live
	onRemoved.State, onRemoved.Removed = record.StateOpen, true
	onRemoved.Endpoint.Addr = netip.MustParseAddrPort("10.1.9.9:80")
	ended := &record.Record{
		ID: 5, Service: s.Port.Name, Client: client, OriginalDst: clusterIP, Start: now,
		Outcome: record.OutcomeEndpointReset, Error: "connection reset by peer",
		ClosedBy: record.Endpoint, CloseType: record.Reset,
		Attempts: []record.Attempt{{Endpoint: s.Port.Endpoints[0].Addr, Err: "timed out", Times: 1}},
	}
	for want, c := range map[string]*Connection{
		"waits for an endpoint of shop/cart:http: 4 dials so far":            {Live: live},
		"is to 10.1.9.9:80, which is no endpoint of shop/cart:http any more": {Live: &onRemoved},
		"to shop/cart:http ended as endpoint_reset (connection reset by ":    {Record: ended},
	} {
		q, err := Parse("5", "")
		if err != nil {
			t.Fatal(err)
		}
		q, found := Find(q.Of(c), []*service.Port{s.Port}, s.node.Local)
		if len(found) != 1 || q.From != pod || q.Frontends[s.Port.Name].Addr != clusterIP {
			t.Fatalf("found %v, asked %+v", found, q)
		}
		r := Explain(q, s.node, []Subject{s.Subject}, now)
		if !strings.Contains(r.Verdict.Text, want) || strings.Contains(text(r), "NodePort 30080") {
			t.Errorf("%+v\n%s", r.Verdict, text(r))
		}
		if keep := q.About(s.Port); !keep(ended) || keep(&record.Record{Service: s.Port.Name}) {
			t.Error("records of other clients are kept, or its own is not")
		}
	}
}

// FuzzParse: whatever is asked for, it is refused by name or looked for.
func FuzzParse(f *testing.F) {
	for _, what := range []string{
		"shop/cart:http", "svc/cart", "pod/shop/cart-a", "client/pod/shop/x", "client/10.0.0.1", "10.96.0.1:80/udp",
		"[fd00::1%eth0]:80", "::ffff:10.0.0.1", "7", "0", "18446744073709551616", "a/b/c", "/", ":", "tcp/", "1.2.3",
	} {
		f.Add(what, "")
		f.Add(what, "fe80::1%\x1b")
	}
	p := newScene().Port
	f.Fuzz(func(t *testing.T, what, from string) {
		q, err := Parse(what, from)
		if err != nil {
			if text := err.Error(); !strings.Contains(text, `"`) || len(text) > 4*(len(what)+len(from))+400 {
				t.Errorf("%q, %q: %v", what, from, err)
			}
			return
		}
		if q.ID == 0 && !q.Address.IsValid() && q.Service.Name == "" {
			t.Errorf("%q is about nothing: %+v", what, q)
		}
		q, found := Find(q, []*service.Port{p}, nil)
		for _, about := range found {
			if about != p {
				t.Errorf("%q finds %+v", what, about)
			}
		}
		each := func(yield func(service.PortName, service.Endpoint) bool) { yield(p.Name, p.Endpoints[0]) }
		_, _ = FindRemoved(q, each)
		_ = q.About(p)(&record.Record{Service: p.Name, Endpoint: p.Endpoints[0]})
	})
}
