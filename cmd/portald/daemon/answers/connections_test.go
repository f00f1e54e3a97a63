package answers

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// idle is an engine whose connections have no sockets.
type idle struct{}

func (idle) Listen(*splice.Front, netip.AddrPort) (splice.Socket, error) { return idle{}, nil }
func (idle) Run(context.Context) error                                   { return nil }
func (idle) Silent() time.Duration                                       { return 0 }
func (idle) Drain()                                                      {}
func (idle) Close()                                                      {}
func (idle) Sessions() splice.SessionTable                               { return nil }
func (idle) Post(func(time.Duration) splice.Step)                        {}
func (idle) ObservePayload(*payload.Keeper)                              {}
func (idle) Interface() int                                              { return 0 }
func (idle) Keep(tell func(*splice.Kept))                                { tell(nil) }
func (idle) Detach(tell func(*splice.Departure))                         { tell(nil) }
func (idle) SetKeepalive(record.Side, splice.Keepalive)                  {}
func (idle) Unkept()                                                     {}
func (idle) InFlight() bool                                              { return false }
func (idle) Unresponsive(record.Side, time.Duration) bool                { return false }
func (idle) TCPInfo(tell func(client, endpoint record.TCPInfo)) {
	tell(record.TCPInfo{Known: true, RTT: time.Millisecond}, record.TCPInfo{Known: true, RTT: 2 * time.Millisecond})
}

// only picks one endpoint.
type only netip.AddrPort

func (only) Join(netip.AddrPort) splice.State { return nil }

func (o only) MayRetry(*service.Policy) bool { return true }

func (o only) Retried() {}

func (o only) Pick(netip.Addr, []netip.AddrPort, *service.Policy) (splice.Lease, bool) {
	return splice.Lease{Endpoint: netip.AddrPort(o)}, true
}

// carrying returns a data path with so many open connections, of as many clients.
func carrying(t testing.TB, conns int) userspaceConnections {
	t.Helper()
	core, err := splice.New(splice.Options{}, func(*splice.Core) (splice.Engine, error) { return idle{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	at, endpoint := netip.MustParseAddrPort("10.96.0.10:80"), netip.MustParseAddrPort("10.1.1.1:8080")
	view := &splice.View{
		Port:      &service.Port{},
		Exposures: []service.Exposure{{Frontend: service.Frontend{Addr: at, Protocol: inet.TCP}}},
		Endpoints: []service.Endpoint{{Addr: endpoint, Pod: "shop/cart-7d9f8b6c5-x2vqk", Node: "node-17"}},
	}
	name := service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP}
	f, err := core.Open(name, splice.Pickers{only(endpoint)}, view, at)
	if err != nil {
		t.Fatal(err)
	}
	for i := range conns {
		client := netip.AddrFrom4([4]byte{10, 2 + byte(i>>16), byte(i >> 8), byte(i)})
		conn := &splice.Conn{}
		conn.Accept(f, idle{}, netip.AddrPortFrom(client, 40000), core.Now())
		s := conn.Admit(at, core.Now())
		if s.Kind != splice.StepDial {
			t.Fatalf("step %+v", s)
		}
		conn.Dialling(s.Dial, netip.MustParseAddrPort("10.1.1.254:18044"))
		conn.Connected(s.Dial, core.Now())
	}
	return userspaceConnections{core, func(service.PortName) map[netip.AddrPort]string { return nil }}
}

// lister returns a function that reads a whole list of connections over a socket, and returns its size.
func lister(t testing.TB, path userspaceConnections) func(query string) int {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := adminsocket.Listen(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(adminsocket.NewHandler(adminsocket.Daemon{
		Connections: path.all, AddTCP: path.addTCP,
	}))
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	t.Cleanup(func() { client.CloseIdleConnections(); server.Close() })
	return func(query string) int {
		answer, err := client.Get("http://portald/v1/connections?" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		n, err := io.Copy(io.Discard, answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status, err)
		}
		return int(n)
	}
}

// All of 100,000 connections are listed once each, in memory for a few.
func TestListOfMany(t *testing.T) {
	const many = 100_000
	list := carrying(t, many)
	seen := make(map[uint64]bool, many)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for c := range list.all(t.Context()) {
		seen[c.ID] = true
		if c.Service != "shop/cart:http" || c.State != "open" || c.Node != "node-17" || c.Attempts != 1 {
			t.Fatalf("%+v", c)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; len(seen) != many || took > 8<<20 {
		t.Errorf("%d connections are listed, with %d bytes", len(seen), took)
	}
}

// TCP_INFO is read by id, and connections that have ended have none.
func TestTCPIsAdded(t *testing.T) {
	path := carrying(t, 3)
	all := []adminsocket.Connection{{ID: 2}, {ID: 99}, {ID: 3}}
	path.addTCP(t.Context(), all)
	for i, known := range []bool{true, false, true} {
		if c := all[i]; (c.ClientTCP != nil) != known || known && (c.ClientTCP.RTTms != 1 || c.EndpointTCP.RTTms != 2) {
			t.Errorf("%+v has %+v and %+v", c.ID, c.ClientTCP, c.EndpointTCP)
		}
	}
}

// BenchmarkList is a list of 100,000 connections, from the request to its last byte at the client.
func BenchmarkList(b *testing.B) {
	list := lister(b, carrying(b, 100_000))
	runtime.GC()
	for _, query := range []string{"", "sort=bytes", "sort=bytes&limit=100", "ip=10.2.3.4", "service=cart", "tcp=1"} {
		b.Run(query, func(b *testing.B) {
			var size int
			for b.Loop() {
				size = list(query)
			}
			b.ReportMetric(float64(size)/1e6, "MB")
		})
	}
}
