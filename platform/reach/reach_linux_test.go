package reach

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/netnstest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	netnstest.Alone()
	m.Run()
}

// route adds a route to 10.x.0.0/16 of a type, and by a next hop if there is one.
func route(kind int, to, via string) error {
	_, dst, err := net.ParseCIDR(to)
	return errors.Join(err, netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(via), Type: kind}))
}

// fillsQueue listens at a port, accepts nothing, and fills its queue.
func fillsQueue(t *testing.T, there *netnstest.Namespace, port int) {
	t.Helper()
	there.Must(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { unix.Close(fd) })
		return errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Port: port}), unix.Listen(fd, 0))
	})
	c, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr("10.9.0.2"), uint16(port)).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
}

// A probe tells a host that is gone from a port that does not answer, and both from a network that leads nowhere.
func TestProbe(t *testing.T) {
	here, there := netnstest.Process(t), netnstest.New(t)
	netnstest.Link(here, there, "here", "there", []string{"10.9.0.1/24", "fd09::1/64"},
		[]string{"10.9.0.2/24", "fd09::2/64"})
	there.Must(func() error {
		l, err := net.Listen("tcp", ":80")
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	fillsQueue(t, there, 82)
	here.Must(func() error {
		return errors.Join(route(unix.RTN_UNREACHABLE, "10.10.0.0/16", ""), route(unix.RTN_BLACKHOLE, "10.11.0.0/16", ""),
			route(unix.RTN_PROHIBIT, "10.12.0.0/16", ""), route(unix.RTN_UNICAST, "10.13.0.0/16", "10.9.0.4"))
	})
	cases := []struct {
		at                    string
		connect, closed, echo Answer
		up, silent, via       bool
		noRoute               string
	}{
		{at: "10.9.0.2:80", connect: Accepted, closed: Refused, echo: Answered, up: true},
		{at: "[fd09::2]:80", connect: Accepted, closed: Refused, echo: Answered, up: true},
		{at: "10.9.0.2:81", connect: Refused, closed: Refused, echo: Answered, up: true},
		{at: "10.9.0.2:82", connect: Nothing, closed: Refused, echo: Answered, up: true},
		{at: "10.9.0.3:80", connect: Nothing, closed: Nothing, echo: Nothing, silent: true},
		{at: "[fd09::3]:80", connect: Nothing, closed: Nothing, echo: Nothing, silent: true},
		{at: "10.9.0.1:80", connect: Refused, closed: Refused, echo: Answered, up: true},
		{at: "10.10.0.1:80", connect: Unreachable, closed: Unreachable, echo: Unreachable,
			noRoute: "the route is unreachable"},
		{at: "10.11.0.1:80", connect: Broken, closed: Broken, echo: Broken, noRoute: "the route is a blackhole"},
		{at: "10.12.0.1:80", connect: Forbidden, closed: Forbidden, echo: Forbidden, noRoute: "the route is prohibited"},
		{at: "10.13.0.1:80", connect: Nothing, closed: Nothing, echo: Nothing, silent: true, via: true},
		{at: "10.14.0.1:80", connect: NoRoute, closed: NoRoute, echo: NoRoute, noRoute: "network is unreachable"},
	}
	began := time.Now().Add(-time.Hour)
	var targets []Target
	for _, c := range cases {
		targets = append(targets, Target{netip.MustParseAddrPort(c.at), true})
	}
	targets = append(targets, Target{netip.MustParseAddrPort("10.9.0.2:53"), false})
	results := Probe(context.Background(), targets, 0)
	for i, c := range cases {
		r := results[i]
		if r.Connect != c.connect || r.Closed != c.closed || r.Echo != c.echo || r.Path.Up(began) != c.up ||
			r.Path.Silent() != c.silent || r.Path.Via.IsValid() != c.via || r.Path.NoRoute != c.noRoute {
			t.Errorf("%s: %+v, want %+v", c.at, r, c)
		}
	}
	if r := results[len(cases)]; r.Connect != "" || r.Closed != Refused || r.Took != 0 {
		t.Errorf("nothing is sent to a port that is not to be connected to: %+v", r)
	}
}

// A neighbour that answered before a moment, or was never asked, does not tell that its host is up.
func TestPathConfirms(t *testing.T) {
	at := time.Unix(1e9, 0)
	via := netip.MustParseAddr("10.9.0.4")
	for name, c := range map[string]struct {
		path Path
		up   bool
	}{
		"it answered since":                {Path{Neighbor: "STALE", Confirmed: at.Add(1)}, true},
		"it answered before":               {Path{Neighbor: "REACHABLE", Confirmed: at.Add(-1)}, false},
		"nothing is known":                 {Path{}, false},
		"it was asked, and did not answer": {Path{Neighbor: Failed, Confirmed: at.Add(1)}, false},
		"the next hop answered":            {Path{Neighbor: "REACHABLE", Confirmed: at.Add(1), Via: via}, false},
		"it is this host":                  {Path{Here: true}, true},
	} {
		if c.path.Up(at) != c.up {
			t.Errorf("%s: want up %t", name, c.up)
		}
	}
}
