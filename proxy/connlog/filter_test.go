package connlog

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/proxy/record"
)

// served is the line of record, of a client that is a pod.
func served() *Line {
	r := sample()
	r.ClientPod, r.ClientNode, r.CarriedBy = "front/web-1", "node-2", record.Userspace
	return From(r)
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// filter makes a filter of values such as "service=shop/cart" and "!proto=udp".
func filter(t testing.TB, values ...string) *Filter {
	t.Helper()
	f := &Filter{}
	for _, v := range values {
		v, not := strings.CutPrefix(v, "!")
		name, value, _ := strings.Cut(v, "=")
		if err := f.Add(not, name, value, noon); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestFilterKeys(t *testing.T) {
	for key, c := range map[string]struct{ yes, no string }{
		"service":    {"shop/cart shop/cart:http cart cart:http shop/* */cart sh*/c*:ht*", "shop shop/car cart:https"},
		"namespace":  {"shop s*", "cart front"},
		"pod":        {"shop/cart-a cart-a front/web-1 web-* */cart-*", "shop cart front/cart-a"},
		"from-pod":   {"front/web-1 web-1", "shop/cart-a"},
		"to-pod":     {"shop/cart-a cart-?", "front/web-1"},
		"node":       {"node-1 node-2 node-*", "node"},
		"ip":         {"10.0.0.9 10.96.0.10 10.0.0.1 10.1.0.2 10.1.0.3 10.1.0.0/16 ::ffff:10.0.0.9", "10.0.0.8 fd00::/8"},
		"from-ip":    {"10.0.0.9 10.0.0.0/8", "10.96.0.10 10.1.0.3"},
		"to-ip":      {"10.96.0.10 10.1.0.2 10.1.0.3", "10.0.0.9 10.0.0.1"},
		"port":       {"41234 80 35012 8080", "443"},
		"endpoint":   {"10.1.0.3:8080 10.1.0.2:8080 10.1.0.3", "10.1.0.3:80 10.0.0.9"},
		"outcome":    {"ok", "failed client_reset"},
		"attempts":   {"2 =2 >1 >=2 <3 <=2", "1 >2 >=3 <2 <=1"},
		"proto":      {"tcp", "udp sctp"},
		"carried-by": {"userspace", "kernel"},
		"since":      {"5m 0s 2026-11-21T12:00:01Z 2026-11-21T12:00:01.130Z", "2026-11-21T12:00:01.140Z"},
		"until":      {"2026-11-21T12:00:02Z 2026-11-21T13:00:01.124+01:00", "0s 2026-11-21T12:00:01Z"},
	} {
		for want, values := range map[bool]string{true: c.yes, false: c.no} {
			for value := range strings.FieldsSeq(values) {
				f := filter(t, key+"="+value)
				if got := f.Match(served()); got != want {
					t.Errorf("%s %s: %v", key, value, got)
				}
				if line := AppendJSON(nil, served()); want && !f.Possible(line) {
					t.Errorf("%s %s is not possible in %s", key, value, line)
				}
			}
		}
	}
	for _, k := range Keys() {
		if k.Help == "" || k.Value != strings.ToUpper(k.Value) {
			t.Errorf("%+v", k)
		}
	}
}

// Lines that cannot match are told without decoding them, by most values.
func TestImpossibleLines(t *testing.T) {
	line := AppendJSON(nil, served())
	for value := range strings.FieldsSeq(`service=shop/car-t namespace=chop pod=cart-b from-pod=web-2 to-pod=cart-b node=node-3
		ip=10.0.0.8 from-ip=fd00::1 to-ip=10.0.0.8 port=443 endpoint=10.1.0.3:8081 endpoint=10.1.0.4 outcome=failed
		outcome=client_reset proto=udp carried-by=kernel since=2026-11-21T12:00:01.140Z until=2026-11-21T12:00:01Z`) {
		if filter(t, value).Possible(line) {
			t.Errorf("%s is possible in %s", value, line)
		}
	}
	since, until := filter(t, "since=5m", "since=2026-11-21T11:00:00Z", "until=1m", "!since=24h").Between()
	if !since.Equal(noon.Add(-time.Hour)) || !until.Equal(noon.Add(-time.Minute)) {
		t.Errorf("between %v and %v", since, until)
	}
}

// Values of one key are alternatives, and each key has to match; what is not wanted excludes by itself.
func TestFilterCombines(t *testing.T) {
	for values, want := range map[string]bool{
		"":                                    true,
		"port=80 port=443":                    true,
		"port=443 port=80":                    true,
		"port=80 proto=udp":                   false,
		"!proto=udp":                          true,
		"!proto=tcp":                          false,
		"port=80 !outcome=failed":             true,
		"port=80 !outcome=failed !pod=cart-a": false,
		"!port=443 !port=80":                  false,
	} {
		f := filter(t, strings.Fields(values)...)
		if got := f.Match(served()); got != want || f.Empty() != (values == "") {
			t.Errorf("%q: %v", values, got)
		}
		again, err := ParseFilter(f.Query(), noon.Add(time.Hour))
		if err != nil || again.Match(served()) != want || again.String() != f.String() {
			t.Errorf("%q as a query: %q, %v", f, again, err)
		}
	}
}

// A time that is relative stays that of when the filter was made.
func TestFilterQueryHasAbsoluteTimes(t *testing.T) {
	want := url.Values{"since": {"2026-11-21T11:55:00Z"}, "not-until": {"2026-11-21T10:00:00Z"}}
	if got := filter(t, "since=5m", "!until=2h").Query(); got.Encode() != want.Encode() {
		t.Errorf("%v", got)
	}
}

func TestFilterRefuses(t *testing.T) {
	for _, c := range []string{"colour=red", "service=", "service=[", "ip=10.0.0", "ip=10.0.0.0/33", "port=http",
		"port=65536", "endpoint=cart-a", "outcome=bad", "attempts=many", "attempts=>", "attempts==>2", "attempts=-1",
		"proto=icmp", "carried-by=me", "since=yesterday", "until=-5m"} {
		name, value, _ := strings.Cut(c, "=")
		err := new(Filter).Add(false, name, value, noon)
		if err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", c, err)
		}
		if _, err := ParseFilter(url.Values{"not-" + name: {value}}, noon); name != "colour" && err == nil {
			t.Errorf("%s is taken as a query", c)
		}
	}
}

// A record without an endpoint matches no empty word or address.
func TestFilterOfRefusedConnections(t *testing.T) {
	l := From(stray())
	for _, value := range []string{"pod=*", "node=*", "endpoint=0.0.0.0", "ip=0.0.0.0/0", "port=0", "to-ip=::/0"} {
		if filter(t, value).Match(l) {
			t.Error(value)
		}
	}
	if !filter(t, "ip=fd00::/8", "outcome=failed", "attempts=0").Match(l) {
		t.Error("its client")
	}
}

func TestKeysAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Keys() {
		if seen[k.Name] || strings.HasPrefix(k.Name, notPrefix) {
			t.Error(k.Name)
		}
		seen[k.Name] = true
	}
}

// FuzzFilter: a filter that is read, and written as a query, is the same filter.
func FuzzFilter(f *testing.F) {
	for _, query := range []string{
		"service=shop/cart:http&not-service=a*&pod=x&from-pod=b/c&to-pod=[a-c]*&node=n1",
		"ip=10.0.0.0/8&from-ip=::1&to-ip=1.2.3.4",
		"port=80&port=65535&endpoint=10.0.0.1:80&endpoint=::1", "outcome=failed&not-outcome=ok&attempts=>=2&attempts=3",
		"proto=tcp&carried-by=kernel&since=5m&until=2026-01-02T03:04:05Z", "since=13:00&until=1h", "service=[", "colour=red",
	} {
		f.Add(query)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	lines := []*Line{From(sample()), From(broken()), From(full()), {}}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		filter, err := ParseFilter(values, now)
		if err != nil {
			return
		}
		again, err := ParseFilter(filter.Query(), now.Add(time.Hour))
		if err != nil {
			t.Fatalf("%q is written as %q: %v", query, filter.Query(), err)
		}
		for i, l := range lines {
			if filter.Match(l) != again.Match(l) {
				t.Errorf("%q matches line %d: %t; written as %q: %t", query, i, filter.Match(l), filter.Query(), again.Match(l))
			}
		}
		if filter.String() != again.String() {
			t.Errorf("%q is shown as %q, and again as %q", query, filter, again)
		}
	})
}
