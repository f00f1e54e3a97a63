package splice

import (
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// inOrder picks one endpoint after the other, and tells no one how it went.
type inOrder struct {
	n    int
	paid int // further dials that were taken out of the budget, and not given back
}

func (p *inOrder) MayRetry(*service.Policy) bool {
	p.paid++
	return true
}

func (p *inOrder) Retried() { p.paid-- }

func (p *inOrder) Pick(_ netip.Addr, tried []netip.AddrPort, _ *service.Policy) (Lease, bool) {
	p.n++
	at := endpointNumber(p.n)
	return Lease{Endpoint: at}, !slices.Contains(tried, at)
}

func (p *inOrder) Join(netip.AddrPort) State { return nil }

// hedgedConn returns a connection whose first dial has a hedge, at these times.
func hedgedConn(t *testing.T, policy service.Policy) (c *Conn, rec *record.Record) {
	t.Helper()
	rec = &record.Record{}
	observe := func(service.PortName) record.Observer {
		return record.ObserverFunc(func(r *record.Record) { *rec = *r })
	}
	core, err := New(Options{Policy: policy, Observe: observe},
		func(*Core) (Engine, error) { return idleEngine{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort("10.96.0.10:80")
	view := &View{
		Port:      &service.Port{},
		Exposures: []service.Exposure{{Frontend: service.Frontend{Addr: at, Protocol: inet.TCP}}},
	}
	name := service.PortName{Namespace: "shop", Name: "cart", Protocol: inet.TCP}
	f, err := core.Open(name, Pickers{new(inOrder)}, view)
	if err != nil {
		t.Fatal(err)
	}
	c = &Conn{}
	c.Accept(f, idleOwner{}, netip.MustParseAddrPort("10.2.0.1:1024"), 0)
	wantDial(t, c.Admit(at, 0), 0, 1, 100)
	if s := c.Expired(9); s.Kind != StepNone || c.HedgeAt() != 10 {
		t.Fatalf("before its time: %+v, next at %d", s, c.HedgeAt())
	}
	wantDial(t, c.Expired(10), 1, 2, 210)
	if c.HedgeAt() >= 0 {
		t.Fatal("a third dial beside two")
	}
	return c, rec
}

func wantDial(t *testing.T, s Step, d Dial, endpoint int, until time.Duration) {
	t.Helper()
	if s.Kind != StepDial || s.Dial != d || s.Endpoint != endpointNumber(endpoint) || s.Until != until {
		t.Fatalf("step %+v", s)
	}
}

// hedgedPolicy has timeouts that tell a dial's place.
var hedgedPolicy = service.Policy{ConnectTimeouts: []time.Duration{100, 200, 300, 400}, HedgeAfter: 10}

// A dial for which this host lacks something did not come to be: it costs nothing of the budget. One that fails does.
func TestBudgetOfDialsThatWereNotMade(t *testing.T) {
	c, _ := hedgedConn(t, hedgedPolicy)
	budget := c.life.entry.front.pickers[service.ClusterScope].(*inOrder)
	paid := func(want int) {
		t.Helper()
		if budget.paid != want {
			t.Errorf("%d dials are paid for, want %d", budget.paid, want)
		}
	}
	paid(1) // the hedge
	c.Failed(1, syscall.EADDRNOTAVAIL, NoPort, 20)
	paid(1) // another one, in place of that
	c.Failed(1, syscall.ECONNREFUSED, Enough, 30)
	paid(2)
	c.Failed(1, syscall.EADDRNOTAVAIL, NoPort, 40)
	paid(1)
}

// Each dial has the timeout of its place in the round, and when all have failed the connection does.
func TestTimeoutsOfHedges(t *testing.T) {
	c, rec := hedgedConn(t, hedgedPolicy)
	wantDial(t, c.Failed(0, ErrTimeout, Enough, 100), 0, 3, 400) // the hedge is alone for long, and has one
	wantDial(t, c.Failed(1, ErrTimeout, Enough, 210), 1, 4, 610)
	if s := c.Failed(0, ErrTimeout, Enough, 400); s.Kind != StepNone || c.HedgeAt() >= 0 {
		t.Fatalf("step %+v, and a fifth dial at %d", s, c.HedgeAt())
	}
	if s := c.Failed(1, ErrTimeout, Enough, 610); s.Kind != StepEnd {
		t.Fatalf("step %+v", s)
	}
	c.Closed(620)
	want := []time.Duration{100, 200, 300, 400}
	for i, a := range rec.Attempts {
		if a.Took != want[i] || a.Hedge != (i > 0) || a.Endpoint != endpointNumber(i+1) {
			t.Errorf("attempts %+v", rec.Attempts)
		}
	}
	if len(rec.Attempts) != 4 || rec.Outcome != record.OutcomeDialFailed {
		t.Errorf("record %+v", rec)
	}
}

// A shortage of this host ends the hedge alone. Without a port towards one endpoint another is dialled; where nothing
// can be dialled the first dial goes on by itself.
func TestShortageOfAHedge(t *testing.T) {
	c, rec := hedgedConn(t, hedgedPolicy)
	wantDial(t, c.Failed(1, syscall.EADDRNOTAVAIL, NoPort, 11), 1, 3, 311)
	if s := c.Failed(1, syscall.EMFILE, NoResources, 12); s.Kind != StepNone || c.HedgeAt() >= 0 {
		t.Fatalf("step %+v, the next dial at %d", s, c.HedgeAt())
	}
	if s := c.Connected(0, 50); s.Kind != StepCarry {
		t.Fatalf("step %+v", s)
	}
	c.Abort(record.OutcomeCut)
	c.Closed(60)
	var errs []string
	for _, a := range rec.Attempts {
		errs = append(errs, a.Err)
	}
	want := []string{syscall.EADDRNOTAVAIL.Error(), syscall.EMFILE.Error(), ""}
	if !slices.Equal(errs, want) || rec.Endpoint.Addr != endpointNumber(1) || rec.Connect != 50 {
		t.Errorf("record %+v", rec)
	}
}

// After a shortage the connection goes on with its dials when the first one has timed out.
func TestShortageOfAHedgeIsOver(t *testing.T) {
	c, _ := hedgedConn(t, hedgedPolicy)
	c.Failed(1, syscall.EMFILE, NoResources, 12)
	wantDial(t, c.Failed(0, ErrTimeout, Enough, 100), 0, 3, 300)
	if c.HedgeAt() != 110 {
		t.Errorf("the next dial at %d", c.HedgeAt())
	}
}

// postingOwner keeps the functions posted to its connection.
type postingOwner struct {
	idleOwner
	posts chan func(time.Duration) Step
}

func (o postingOwner) Post(next func(time.Duration) Step) { o.posts <- next }

// A host lookup about the endpoint of a hedge that lost the race returns when the connection has left the other
// endpoint too, and a third has one pending.
func TestHostLookupOfAFormerDial(t *testing.T) {
	o := Options{
		Policy:       hedgedPolicy,
		ReturnsKnown: func(_, to netip.Addr, _ int) (bool, bool) { return false, to == endpointNumber(1).Addr() },
		Returns:      func(_, to netip.Addr, _ int) bool { return to == endpointNumber(2).Addr() },
	}
	o.Policy.ClientAddress, o.Policy.RetryOn = service.AddressTransparent, service.RetryConnect|service.RetryReset
	core, err := New(o, func(*Core) (Engine, error) { return idleEngine{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort("10.96.0.10:80")
	view := &View{Port: &service.Port{}, Exposures: []service.Exposure{{Frontend: service.Frontend{Addr: at}}}}
	f, err := core.Open(service.PortName{Name: "cart", Protocol: inet.TCP}, Pickers{new(inOrder)}, view)
	if err != nil {
		t.Fatal(err)
	}
	c, owner := &Conn{}, postingOwner{posts: make(chan func(time.Duration) Step, 2)}
	c.Accept(f, owner, netip.MustParseAddrPort("10.2.0.1:1024"), 0)
	wantDial(t, c.Admit(at, 0), 0, 1, 100)
	if s := c.Expired(10); s.Kind != StepNone || !c.life.dial.lookupPending() {
		t.Fatalf("step %+v", s)
	}
	c.Connected(0, 20)
	s := c.Broken(record.Endpoint, syscall.ECONNRESET, false)
	if s.Kind != StepNone || !s.Drop || !c.life.dial.lookupPending() {
		t.Fatalf("step %+v", s)
	}
	if s := (<-owner.posts)(30); s.Kind != StepNone {
		t.Errorf("by the answer about another endpoint: %+v", s)
	}
	if s := (<-owner.posts)(40); s.Kind != StepDial || s.As.IsValid() || s.Endpoint != endpointNumber(3) {
		t.Errorf("step %+v", s)
	}
}
