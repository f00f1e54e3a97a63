package inspect

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/proxy/adminsocket"
)

func services3() []adminsocket.Service {
	return []adminsocket.Service{
		{
			Name: "kube-system/kube-dns:dns", Protocol: "udp", Mode: "kernel", ModeFrom: "default", Endpoints: 2, Usable: 2,
			Frontends: []adminsocket.Frontend{{Address: addr("10.96.0.2:53"), Kind: "ClusterIP", Target: "spread"}},
		},
		{
			Name: "shop/cart:http", Protocol: "tcp", Mode: "userspace", ModeFrom: "annotation", Endpoints: 4, Usable: 3,
			Frontends: []adminsocket.Frontend{
				{Address: addr("10.96.0.10:80"), Kind: "ClusterIP", Target: "redirect", Port: 11000},
				{Address: addr("[2001:db8::1]:80"), Kind: "ExternalIP", Target: "redirect", Holder: "other/cart:http"},
			},
			Open: ptr(12), Ended: ptr[uint64](34567), Failed: ptr[uint64](3), BytesUp: ptr[uint64](12_345_678),
			BytesDown: ptr[uint64](9_876_543_210),
		},
		{
			Name: "shop/web:http", Protocol: "tcp", Mode: "userspace", ModeFrom: "default", Open: ptr(0),
			Ended: ptr[uint64](90_000), Failed: ptr[uint64](0), BytesUp: ptr[uint64](0), BytesDown: ptr[uint64](0),
			Problem:  "spec.externalIPs: 1.2.3.4\x1b[31m is not allowed",
			Problems: []string{"spec.externalIPs: 1.2.3.4\x1b[31m is not allowed", "portald.io/mode: no"},
		},
	}
}

func ptr[T any](v T) *T { return &v }

func endpoints3() []adminsocket.Endpoint {
	when := ago(64 * time.Second)
	return []adminsocket.Endpoint{
		{
			Service: "kube-system/kube-dns:dns", Protocol: "udp", Address: addr("10.1.0.4:53"), Pod: "kube-system/dns-1",
			Node: "n1", Zone: "a", State: "used",
		},
		{
			Service: "shop/cart:http", Protocol: "tcp", Address: addr("10.1.0.3:8080"), Pod: "shop/cart-a", Node: "n1",
			Zone: "a", State: "used", Open: ptr(3), Dials: ptr[uint64](1200), Failures: ptr[uint64](0),
			DialP50ms: ptr(0.05), DialP99ms: ptr(1.4),
			RTTms: ptr(0.25), Retransmits: ptr[uint64](7), OutOfOrder: ptr[uint64](2),
			FirstByteP50ms: ptr(3.2), FirstByteP99ms: ptr(250.0),
		},
		{
			Service: "shop/cart:http", Protocol: "tcp", Address: addr("10.1.0.7:8080"), Pod: "shop/cart-b", Node: "n2",
			Zone: "b", State: "drained",
			Since: &when, Open: ptr(1), Dials: ptr[uint64](17), Failures: ptr[uint64](5), DialP50ms: ptr(0.7),
			DialP99ms: ptr(2000.0),
			LastError: "connection refused", LastErrorAt: &when,
		},
	}
}

func TestServices(t *testing.T) {
	b := newBed(t)
	b.services = services3()
	for name, line := range map[string]string{
		"services":          "services",
		"services-wide":     "services shop/cart -o wide",
		"services-by-ended": "svc -n shop --sort ended",
		"services-json":     "services kube-dns -o json",
	} {
		b.golden(name, line)
	}
	if got := b.run("services", "shop/crat"); got.errOut != "No Services shop/crat.\n" || got.err != nil {
		t.Errorf("%q %v", got.errOut, got.err)
	}
}

func TestEndpoints(t *testing.T) {
	b := newBed(t)
	b.endpoints = endpoints3()
	for name, line := range map[string]string{
		"endpoints":               "endpoints",
		"endpoints-wide":          "ep shop/cart -o wide",
		"endpoints-by-failures":   "endpoints --sort failures --no-headers",
		"endpoints-by-first-byte": "endpoints --sort first-byte --no-headers",
		"endpoints-drained":       "endpoints --service cart --state drained",
	} {
		b.golden(name, line)
	}
	for args, want := range map[string]string{
		"shop/crat":                     "No endpoints of shop/crat.\n",
		"-n nowhere":                    "No endpoints in namespace nowhere.\n",
		"shop/cart --endpoint 10.9.9.9": "No endpoints of shop/cart match the flags.\n",
		"--ip 10.9.0.0/16 --port 1":     "No endpoints match the flags.\n",
	} {
		if got := b.run(append([]string{"endpoints"}, strings.Fields(args)...)...); got.errOut != want || got.err != nil {
			t.Errorf("endpoints %s: %q %v", args, got.errOut, got.err)
		}
	}
}

func TestDrain(t *testing.T) {
	b := newBed(t)
	b.endpoints = endpoints3()
	got := b.run("drain", "shop/cart-a")
	want := "shop/cart:http tcp 10.1.0.3:8080: drained, 3 connections open\n"
	if got.out != want || got.err != nil || b.drained != "+10.1.0.3:8080 " {
		t.Errorf("%q %v, drained %s", got.out, got.err, b.drained)
	}
	got = b.run("drain", "10.1.0.7:8080", "--service", "cart", "--undo")
	want = "shop/cart:http tcp 10.1.0.7:8080: not drained any more, 1 connection open\n"
	if got.out != want || got.err != nil || b.drained != "+10.1.0.3:8080 -10.1.0.7:8080 " {
		t.Errorf("%q %v, drained %s", got.out, got.err, b.drained)
	}
	if got := b.run("drain", "10.1.0.7", "--service", "kube-dns"); got.code() != exitNothing {
		t.Errorf("of another Service: %v", got.err)
	}
	b.refuse = errors.New("it is the last one: --force drains it")
	got = b.run("drain", "10.1.0.7")
	want = "drain shop/cart:http tcp 10.1.0.7:8080: it is the last one: --force drains it"
	if got.code() != 1 || got.err.Error() != want {
		t.Errorf("refused: %v", got.err)
	}
	if got := b.run("drain", "10.1.0.7", "--force"); got.err != nil {
		t.Errorf("by force: %v", got.err)
	}
	for _, line := range []string{"drain", "drain a b"} {
		if got := b.run(strings.Fields(line)...); got.code() != exitUsage {
			t.Errorf("%s: %v", line, got.err)
		}
	}
}

// Completion offers what the daemon has, without descriptions, and nothing where there is none.
func TestCompletion(t *testing.T) {
	b := newBed(t)
	b.connections, b.services, b.endpoints = conns(), services3(), endpoints3()
	for line, want := range map[string][]string{
		"cut|":                   {"7", "19"},
		"cut|7|":                 {"19"},
		"conns|--service|shop/c": {"shop/cart", "shop/cart:http"},
		"conns|--service|shop/cart,sh": {"shop/cart,shop/cart", "shop/cart,shop/cart:http", "shop/cart,shop/web",
			"shop/cart,shop/web:http"},
		"services|": {"kube-system/kube-dns", "kube-system/kube-dns:dns", "shop/cart", "shop/cart:http", "shop/web",
			"shop/web:http"},
		"tail|-n|":                 {"kube-system", "shop"},
		"tail|--to-pod|shop/":      {"shop/cart-a", "shop/cart-b"},
		"tail|--outcome|endpoint_": {"endpoint_lost", "endpoint_removed", "endpoint_reset"},
		"drain|10.1.0.7":           {"10.1.0.7:8080"},
		"endpoints|--state|dr":     {"drained"},
		"conns|-o|":                {"json", "jsonpath=", "table", "wide", "yaml"},
		"loglevel|d":               {"debug"},
	} {
		line := strings.Split(line, "|")
		with := append([]string{"__completeNoDesc", line[0], "--socket", b.socket}, line[1:]...)
		var got []string
		for word := range strings.Lines(run(t.Context(), "", with...).out) {
			if word = strings.TrimSpace(word); word[0] != ':' {
				got = append(got, word)
			}
		}
		if d := cmp.Diff(sorted(want), sorted(got)); d != "" {
			t.Errorf("%s (-want +got)\n%s", line, d)
		}
	}
	began := time.Now()
	got := run(t.Context(), "", "__completeNoDesc", "cut", "--socket", "/nowhere", "")
	if got.out != ":4\n" || got.err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("without a daemon: %q %v after %v", got.out, got.err, time.Since(began))
	}
}

func sorted(words []string) []string {
	slices.Sort(words)
	return words
}
