package adminsocket

import (
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A query is the same after its way through a URL: each field.
func TestQueryValues(t *testing.T) {
	q := ConnectionQuery{
		IDs: []uint64{1, 2}, Namespaces: []string{"a"}, Services: []string{"a/b:c", "d"}, Pods: []string{"p"},
		IPs:   []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")},
		Ports: []uint16{80, 65535}, Endpoints: []string{"10.0.0.1:80"}, Protocols: []string{"tcp"},
		States: []string{"open"}, EndpointStates: []string{"removed"}, CarriedBy: []string{"kernel"},
		Older: time.Minute, Idle: 1500 * time.Millisecond, Sort: ByIdle, Limit: 7, TCP: true,
	}
	for i := range reflect.TypeFor[ConnectionQuery]().NumField() {
		if reflect.ValueOf(q).Field(i).IsZero() {
			t.Errorf("%s is not tested", reflect.TypeFor[ConnectionQuery]().Field(i).Name)
		}
	}
	values, err := url.ParseQuery(q.Values().Encode())
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseConnections(values)
	if d := cmp.Diff(&q, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, d)
	}
}

func TestQueryMistakes(t *testing.T) {
	for query, want := range map[string]string{
		"colour=red":                  `no key "colour"`,
		"id=x":                        "id=x: must be a number",
		"ip=10.0.0":                   "ip=10.0.0: must be an address or CIDR",
		"port=70000":                  "port=70000: must be a port",
		"older=10":                    "older=10: must be a time with its unit",
		"sort=name":                   "sort=name: must be one of",
		"limit=0":                     "limit=0: must be a number from 1 on",
		"limit=-1":                    "limit=-1",
		"limit=9223372036854775807":   "limit=9",
		"tcp=maybe":                   "tcp=maybe: must be true or false",
		"port=80&port=x&tcp=perhaps%": "port=x",
	} {
		values, _ := url.ParseQuery(query)
		if _, err := parseConnections(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}

// The same key twice means either, different ones mean both.
func TestQueryMatches(t *testing.T) {
	now := time.Now()
	c := connection(5)
	c.Start, c.LastMoved = now.Add(-time.Hour), now.Add(-time.Minute)
	for query, want := range map[string]bool{
		"": true, "id=5": true, "id=4": false, "id=4&id=5": true,
		"namespace=shop": true, "namespace=sho": false, "namespace=web": false,
		"service=shop/cart": true, "service=shop/cart:http": true, "service=cart": true, "service=cart:http": true,
		"service=car": false, "service=shop/car": false, "service=shop": false, "service=web/cart": false,
		"service=cart&namespace=web": false, "service=nothing&service=cart": true,
		"pod=cart-a": true, "pod=shop/cart-a": true, "pod=front-1": true, "pod=shop/front-1": false, "pod=cart": false,
		"ip=10.1.0.9": true, "ip=10.96.0.10": true, "ip=10.1.0.1": true, "ip=10.1.0.2": false, "ip=10.96.0.0/12": true,
		"port=80": true, "port=8080": true, "port=50000": true, "port=81": false,
		"endpoint=10.1.0.1:8080": true, "endpoint=10.1.0.1": true, "endpoint=cart-a": true, "endpoint=shop/cart-a": true,
		"endpoint=10.1.0.1:80": false, "endpoint=10.1.0.9": false, "endpoint=front-1": false,
		"proto=tcp": true, "proto=udp": false, "state=open": true, "state=dialing": false,
		"older=30m": true, "older=2h": false, "idle=30s": true, "idle=2m": false,
		"idle=30s&proto=udp": false, "proto=udp&proto=tcp&port=80": true,
	} {
		values, _ := url.ParseQuery(query)
		q, err := parseConnections(values)
		if err != nil {
			t.Fatal(query, err)
		}
		if got := q.Match(&c, now); got != want {
			t.Errorf("%q: %t", query, got)
		}
	}
	c.Start, c.LastMoved = time.Time{}, time.Time{}
	for _, q := range []ConnectionQuery{{Older: time.Hour}, {Idle: time.Hour}} {
		if q.Match(&c, now) {
			t.Errorf("%+v matches what has no time", q)
		}
	}
}
