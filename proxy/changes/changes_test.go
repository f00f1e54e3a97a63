package changes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

var (
	name = service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP}
	at   = time.Unix(1e9, 0)
)

func endpoint(n int, edit ...func(*service.Endpoint)) service.Endpoint {
	e := service.Endpoint{
		Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(n)}), 8080), Ready: true, Serving: true,
		Pod: fmt.Sprint("shop/cart-", n),
	}
	for _, f := range edit {
		f(&e)
	}
	return e
}

func unready(e *service.Endpoint) { e.Ready, e.Serving = false, false }

func terminating(e *service.Endpoint) { e.Ready, e.Terminating = false, true }

func kernel(p *service.Port) { p.Mode = service.ModeKernel }

func debugged(until time.Time) func(*service.Port) {
	return func(p *service.Port) { p.Mode, p.DebugUntil = service.ModeUserspace, &until }
}

func port(edit func(*service.Port), endpoints ...service.Endpoint) *service.Port {
	p := &service.Port{Name: name, Endpoints: endpoints}
	if edit != nil {
		edit(p)
	}
	return p
}

// What changed of a service port is told in words, and nothing else.
func TestOf(t *testing.T) {
	many := make([]service.Endpoint, 20)
	for i := range many {
		many[i] = endpoint(i)
	}
	for _, c := range []struct {
		what     string
		old, new *service.Port
		want     []string
	}{
		{"nothing", port(nil, endpoint(1)), port(nil, endpoint(1)), nil},
		{"a new one", nil, port(nil, endpoint(1)), []string{"added, with 1 endpoint"}},
		{"it is gone", port(nil), nil, []string{"removed, with 0 endpoints"}},
		{"endpoints come and go", port(nil, endpoint(1), endpoint(2)), port(nil, endpoint(2), endpoint(3, unready)), []string{
			"endpoint 10.244.0.1:8080 (pod shop/cart-1) removed, was ready",
			"endpoint 10.244.0.3:8080 (pod shop/cart-3) added, not ready",
		}},
		{"conditions", port(nil, endpoint(1), endpoint(2, unready), endpoint(3)),
			port(nil, endpoint(1, terminating), endpoint(2), endpoint(3, unready)), []string{
				"endpoint 10.244.0.1:8080 (pod shop/cart-1) terminating and serving, was ready",
				"endpoint 10.244.0.2:8080 (pod shop/cart-2) ready, was not ready",
				"endpoint 10.244.0.3:8080 (pod shop/cart-3) not ready, was ready",
			}},
		{"a node is not a condition", port(nil, endpoint(1)),
			port(nil, endpoint(1, func(e *service.Endpoint) { e.Zone, e.NotHinted = "a", true })), nil},
		{"many at once", port(nil, many[:2]...), port(nil, many[1:]...), []string{
			"19 endpoints changed at once: 18 added, 1 removed, 0 other; 19 now"}},
		{"the mode", port(nil), port(func(p *service.Port) { p.Mode = service.ModeKernel }),
			[]string{"carried by the default, now by kernel"}},
		{"debugging begins, of one that the kernel carries", port(kernel), port(debugged(at.Add(time.Hour))), []string{
			"carried by kernel, now by userspace (debugged until 2001-09-09T02:46:40Z)"}},
		{"it goes on for longer", port(debugged(at.Add(time.Hour))), port(debugged(at.Add(2 * time.Hour))), nil},
		{"it is ended", port(debugged(at.Add(time.Hour))), port(nil), []string{
			"carried by userspace, now by the default (debugging was ended before its time)"}},
		{"it expires", port(debugged(at)), port(func(p *service.Port) { p.Mode = service.ModeUserspace }), []string{
			"carried by userspace, now by userspace (debugging is over: its time has expired)"}},
		{"properties", port(nil), port(func(p *service.Port) {
			p.Affinity, p.InternalLocal, p.ExternalLocal, p.HealthCheckPort = time.Hour, true, true, 30000
			p.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			p.Exposures = []service.Exposure{{Frontend: service.Frontend{Addr: netip.MustParseAddrPort("10.96.0.1:80"),
				Protocol: inet.TCP}}}
		}), []string{
			"addresses: ClusterIP 10.96.0.1:80/tcp, was none", "loadBalancerSourceRanges: 192.0.2.0/24, was none",
			"sessionAffinity: ClientIP for 1h0m0s, was None", "internalTrafficPolicy: Local, was Cluster",
			"externalTrafficPolicy: Local, was Cluster", "healthCheckNodePort: 30000, was 0",
		}},
	} {
		var got []string
		for _, change := range Of(c.old, c.new, at) {
			if !slices.Contains(Kinds(), change.Kind) || !change.Time.Equal(at) || change.Line().Service != name.Label() {
				t.Errorf("%s: %+v", c.what, change)
			}
			text, _ := strings.CutPrefix(change.Text(), "shop/cart:http: ")
			got = append(got, text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.what, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// A tenant's list of thousands takes no more memory than a few of its elements.
func TestLongListsAreCounted(t *testing.T) {
	long := port(func(p *service.Port) {
		for i := range 5000 {
			at := netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)})
			p.SourceRanges = append(p.SourceRanges, netip.PrefixFrom(at, 32))
		}
	})
	all := Of(port(nil), long, at)
	if len(all) != 1 || len(all[0].Text()) > 300 || !strings.Contains(all[0].Text(), "4992 more") {
		t.Errorf("%+v", all)
	}
}

// A Service that changes all the time takes no more than its share: it is told how much is left out.
func TestOneServiceDoesNotPushOutOthers(t *testing.T) {
	l := NewLog(100)
	l.Add(Change{Time: at, Kind: ServiceAdded, Service: service.PortName{Namespace: "shop", Name: "quiet"}})
	for i := range 10_000 {
		l.Add(Change{Time: at.Add(time.Duration(i) * time.Millisecond / 100), Kind: EndpointReady, Service: name})
	}
	l.Add(Change{Time: at.Add(time.Second), Kind: EndpointReady, Service: name})
	all := l.Last(1000, nil)
	if all[0].Service.Name != "quiet" || len(all) > 70 {
		t.Fatalf("%d changes, the first %+v", len(all), all[0])
	}
	const text = "more changes of the Service are left out"
	if left := all[len(all)-2]; left.Kind != LeftOut || !strings.Contains(left.Text(), text) {
		t.Errorf("%+v", left)
	}
	if n := l.Count(EndpointReady); n != 10_001 {
		t.Errorf("%d are counted", n)
	}
	for range 1000 {
		l.Add(Change{Time: at.Add(time.Second), Kind: ConnectionsCut})
	}
	l.Add(Change{Time: at.Add(time.Second), Kind: LogLevelChanged})
	all = l.Last(1000, nil)
	last, left := all[len(all)-1], all[len(all)-2]
	if last.Kind != LogLevelChanged || left.Kind != LeftOut || !strings.Contains(left.Text(), string(ConnectionsCut)) {
		t.Errorf("%+v after %+v", last, left)
	}
}

// Before Begin nothing has changed; a follower gets what comes, and learns what it missed.
func TestFollow(t *testing.T) {
	l := NewLog(4)
	l.Ports(nil, port(nil))
	if all := l.Last(10, nil); len(all) > 0 {
		t.Fatalf("before it began: %+v", all)
	}
	l.Begin()
	_, _, position, more := l.After(0)
	l.Ports(nil, port(nil, endpoint(1)))
	<-more
	all, missed, position, _ := l.After(position)
	if len(all) != 1 || missed > 0 || all[0].Kind != ServiceAdded {
		t.Errorf("%+v, %d missed", all, missed)
	}
	for range 6 {
		l.Add(Change{Kind: ModeChanged, Service: name})
	}
	all, missed, next, _ := l.After(position)
	if len(all) != 4 || missed != 2 || next != l.Position() {
		t.Errorf("%d changes, %d missed, position %d", len(all), missed, next)
	}
	if some := l.Last(2, func(c *Change) bool { return c.Kind == ModeChanged }); len(some) != 2 || some[0].Time.IsZero() {
		t.Errorf("%+v", some)
	}
}

// What the daemon does is told in words.
func TestText(t *testing.T) {
	e := endpoint(1)
	for want, c := range map[string]Change{
		"shop/cart:http: endpoint 10.244.0.1:8080 (pod shop/cart-1) ejected, since it failed connections (refused: no)": {
			Kind: EndpointEjected, Service: name, Endpoint: e.Addr, Pod: e.Pod, New: "refused: no"},
		"shop/cart:http: endpoint 10.244.0.1:8080 is no longer ejected": {
			Kind: EndpointBack, Service: name, Endpoint: e.Addr},
		"shop/cart:http: the service port cannot be served as configured (no room)": {
			Kind: ServiceRefused, Service: name, What: "the service port", New: "no room"},
		"shop/cart:http: the service port is served again": {
			Kind: ServiceAccepted, Service: name, What: "the service port"},
		"level of the log of portald: debug, was info": {
			Kind: LogLevelChanged, What: "level of the log of portald", Old: "info", New: "debug"},
	} {
		if got := c.Text(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A successor has what its predecessor noticed, in order, and what both noticed once. Who follows sees what is new.
func TestInherit(t *testing.T) {
	l := NewLog(6)
	own := func(second int, c Change) Change {
		c.Time = at.Add(time.Duration(second) * time.Second)
		return c
	}
	ready := Change{Kind: EndpointReady, Service: name, Endpoint: endpoint(1).Addr, New: "ready", Old: "not ready"}
	started, cut := Change{Kind: DaemonStarted, What: "started"}, Change{Kind: ConnectionsCut, What: "cut"}
	begin := l.Position()
	l.Add(own(10, started))
	l.Add(own(12, ready))
	l.Inherit([]Change{own(1, cut), own(2, ready), own(11, ready), own(13, cut), own(14, ready)})
	want := []Change{own(1, cut), own(2, ready), own(10, started), own(12, ready), own(13, cut), own(14, ready)}
	if got := l.Last(10, nil); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := l.Count(ConnectionsCut); n != 0 {
		t.Errorf("%d inherited changes are counted", n)
	}
	if all, missed, _, _ := l.After(0); len(all) != 6 || missed > 0 {
		t.Errorf("%d changes, %d missed", len(all), missed)
	}
	if all, missed, next, _ := l.After(begin); len(all) != 2 || missed > 0 || next != begin+2 {
		t.Errorf("%d new changes, %d missed", len(all), missed)
	}
	l.Add(own(20, started))
	if got := l.Last(10, nil); len(got) != 6 || got[5] != own(20, started) || got[0] != own(2, ready) {
		t.Errorf("%v", got)
	}
	l = NewLog(2)
	l.Inherit(want)
	if got := l.Last(10, nil); !slices.Equal(got, want[4:]) {
		t.Errorf("%v, want %v", got, want[4:])
	}
	newer := Change{Kind: "of_a_newer_version"}
	if newer.Text() != "of_a_newer_version" {
		t.Error(newer.Text())
	}
}

// What a change costs who makes it, where none is left out.
func BenchmarkPorts(b *testing.B) {
	var l *Log
	few, more := port(nil, endpoint(1), endpoint(2)), port(nil, endpoint(1), endpoint(2), endpoint(3))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%(atOnce*len(names)) == 0 {
			l = NewLog(DefaultSize)
			l.Begin()
		}
		few.Name.Name, more.Name.Name = names[i%len(names)], names[i%len(names)]
		l.Ports(few, more)
	}
}

// names are of as many Services as change at once.
var names = func() (all [1000]string) {
	for i := range all {
		all[i] = fmt.Sprint("cart-", i)
	}
	return all
}()
