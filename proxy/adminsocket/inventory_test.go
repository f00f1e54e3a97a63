package adminsocket

import (
	"context"
	"errors"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// addDrains gives a daemon three endpoints, of which one is the last of its Service.
func addDrains(d *Daemon) (drained map[string]bool) {
	drained = map[string]bool{}
	endpoint := func(service, at, pod, state string) *Endpoint {
		return &Endpoint{Service: service, Protocol: "tcp", Address: netip.MustParseAddrPort(at), Pod: pod, State: state}
	}
	all := []*Endpoint{
		endpoint("shop/cart:http", "10.1.0.1:80", "shop/a", "used"),
		endpoint("shop/cart:http", "10.1.0.2:80", "shop/b", "used"),
		endpoint("web/front", "10.1.0.1:80", "shop/a", "not_ready"),
	}
	d.Services = func(_ context.Context, wanted func(string) bool) iter.Seq[*Service] {
		names := slices.DeleteFunc([]string{"shop/cart:http", "web/front"}, func(n string) bool { return !wanted(n) })
		return func(yield func(*Service) bool) {
			for _, name := range names {
				if !yield(&Service{Name: name, Frontends: []Frontend{}}) {
					return
				}
			}
		}
	}
	d.Endpoints = func(_ context.Context, wanted func(string) bool) iter.Seq[*Endpoint] {
		return slices.Values(slices.DeleteFunc(slices.Clone(all), func(e *Endpoint) bool { return !wanted(e.Service) }))
	}
	d.Drain = func(e *Endpoint, force bool) error {
		if e.Service == "web/front" && !force {
			return errors.New("it is the last")
		}
		drained[e.Service+" "+e.Address.String()] = true
		return nil
	}
	d.Undrain = func(e *Endpoint) error {
		delete(drained, e.Service+" "+e.Address.String())
		return nil
	}
	return drained
}

func TestClientSeesServices(t *testing.T) {
	d := (&fake{}).daemon()
	addDrains(&d)
	c := serve(t, NewHandler(d))
	for _, test := range []struct {
		query ServiceQuery
		want  []string
	}{
		{ServiceQuery{}, []string{"shop/cart:http", "web/front"}},
		{ServiceQuery{Namespaces: []string{"web", "none"}}, []string{"web/front"}},
		{ServiceQuery{Services: []string{"c*t"}}, []string{"shop/cart:http"}},
		{ServiceQuery{Services: []string{"cart:https"}}, nil},
	} {
		all, err := c.Services(t.Context(), test.query)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range all {
			got = append(got, s.Name)
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%+v (-want +got)\n%s", test.query, d)
		}
	}
}

func TestClientSeesEndpoints(t *testing.T) {
	d := (&fake{}).daemon()
	addDrains(&d)
	c := serve(t, NewHandler(d))
	for _, test := range []struct {
		query EndpointQuery
		want  int
	}{
		{EndpointQuery{}, 3},
		{EndpointQuery{ServiceQuery: ServiceQuery{Namespaces: []string{"web"}}}, 1},
		{EndpointQuery{Pods: []string{"shop/a", "none"}}, 2},
		{EndpointQuery{Endpoints: []string{"10.1.0.2"}}, 1},
		{EndpointQuery{Endpoints: []string{"10.1.0.2:81"}}, 0},
		{EndpointQuery{IPs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/31")}, Ports: []uint16{80}}, 2},
		{EndpointQuery{Ports: []uint16{81}}, 0},
		{EndpointQuery{States: []string{"not_ready"}, Pods: []string{"a"}}, 1},
	} {
		all, err := c.Endpoints(t.Context(), test.query)
		if err != nil || len(all) != test.want {
			t.Errorf("%+v: %+v %v", test.query, all, err)
		}
	}
}

// Draining says where it is done and where it is refused, and takes no patterns.
func TestDrain(t *testing.T) {
	d := (&fake{}).daemon()
	drained := addDrains(&d)
	c := serve(t, NewHandler(d))
	got, err := c.Drain(t.Context(), Drain{Endpoint: "shop/a"})
	if err != nil || len(got.Done) != 1 || len(got.Refused) != 1 || got.Refused[0].Why != "it is the last" ||
		len(drained) != 1 {
		t.Errorf("%+v %v %v", got, err, drained)
	}
	if got, err = c.Drain(t.Context(), Drain{Endpoint: "10.1.0.1:80", Service: "front", Force: true}); err != nil ||
		len(got.Done) != 1 || len(drained) != 2 {
		t.Errorf("%+v %v %v", got, err, drained)
	}
	if got, err = c.Undrain(t.Context(), Drain{Endpoint: "a"}); err != nil || len(got.Done) != 2 || len(drained) != 0 {
		t.Errorf("%+v %v %v", got, err, drained)
	}
	if _, err = c.Drain(t.Context(), Drain{Endpoint: "10.1.0.9:80"}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	for _, bad := range []Drain{{}, {Endpoint: "*"}, {Endpoint: "a", Service: "?ront"}} {
		if _, err = c.Drain(t.Context(), bad); err == nil || errors.Is(err, ErrNotFound) || len(drained) != 0 {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err = c.Drain(t.Context(), Drain{}); !strings.Contains(err.Error(), "is missing") {
		t.Error(err)
	}
}
