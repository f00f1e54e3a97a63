package fleet

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/explain"
	"github.com/portald/portald/proxy/record"
)

// daemon answers for a simulated node as a real one does: by the handler of the admin API.
type daemon struct {
	node    string
	records *connlog.Stream
	changes *changes.Log
	stop    func() // ends it, with its connections
}

// connectionsOf is how many are open on each node.
const connectionsOf = 100

func client(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("10.244.0.9"), uint16(20000+i))
}

var endpoint = netip.MustParseAddrPort("10.244.1.7:8080")

// serve answers at the socket of a pod until the test ends.
func (d *daemon) serve(t *testing.T, sockets, pod string) {
	l, err := adminsocket.Listen(t.Context(), filepath.Join(sockets, pod+".sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: adminsocket.NewHandler(adminsocket.Daemon{
		Info: func() adminsocket.Info {
			return adminsocket.Info{Node: d.node, Version: "v0.0.0-simulated", LogLevel: "info"}
		},
		Connections: d.connections,
		AddTCP:      func(context.Context, []adminsocket.Connection) {},
		Services: func(context.Context, func(string) bool) iter.Seq[*adminsocket.Service] {
			one := 1
			return func(yield func(*adminsocket.Service) bool) {
				yield(&adminsocket.Service{Name: "shop/cart:http", Protocol: "tcp", Mode: "userspace", Endpoints: 2, Usable: 2,
					Open: &one})
			}
		},
		Explain: func(_ context.Context, what, _ string, _ bool) (*explain.Report, error) {
			r := &explain.Report{What: what, Node: d.node, Sections: []explain.Section{{Title: "Endpoints"}},
				Verdict: explain.Line{Status: explain.Good, Text: "Nothing stands in the way on this node."}}
			if d.node == "node-007" {
				r.Verdict = explain.Line{Status: explain.Wrong, Text: "The endpoint refuses."}
			}
			if d.node == "node-042" {
				r.Sections = append(r.Sections, explain.Section{Title: "shop/cart:http/tcp: Uneven load",
					Lines: []explain.Line{{Text: "cart-a has 30 of 30 connections"}, {Text: "cart-b came 1m ago"}}})
			}
			return r, nil
		},
		Endpoints: func(context.Context, func(string) bool) iter.Seq[*adminsocket.Endpoint] {
			return func(yield func(*adminsocket.Endpoint) bool) {
				yield(&adminsocket.Endpoint{Service: "shop/cart:http", Protocol: "tcp", Address: endpoint, State: "used"})
			}
		},
		Configuration: func() any { return struct{}{} },
		Metrics:       http.NotFoundHandler(),
		Cut:           func(uint64) bool { return true },
		SetLogLevel:   func(string) error { return nil },
		Records:       d.records,
		Changes:       d.changes,
	})}
	go server.Serve(l)
	d.stop = func() { server.Close() }
	t.Cleanup(d.stop)
}

func (d *daemon) connections(context.Context) iter.Seq[*adminsocket.Connection] {
	return func(yield func(*adminsocket.Connection) bool) {
		now := time.Now()
		for i := range connectionsOf {
			c := &adminsocket.Connection{ID: uint64(i + 1), CarriedBy: "userspace", Service: "shop/cart:http", Protocol: "tcp",
				State: "open", Client: client(i), Endpoint: endpoint, Pod: "shop/cart-a", Start: now, LastMoved: now}
			if !yield(c) {
				return
			}
		}
	}
}

// end records a connection that ended now.
func (d *daemon) end(id uint64) {
	d.records.Observe(&record.Record{
		ID: id, CarriedBy: record.Userspace, Start: time.Now().Add(-20 * time.Millisecond), Duration: 20 * time.Millisecond,
		Service:  service.PortName{Namespace: "shop", Name: "cart", Port: "http"},
		Client:   client(int(id % 1000)),
		Endpoint: service.Endpoint{Addr: endpoint, Pod: "shop/cart-a", Node: d.node},
		Attempts: []record.Attempt{{Endpoint: endpoint}}, BytesFromClient: 120, BytesFromEndpoint: 4096,
		Outcome: record.OutcomeOK, CloseType: "fin", ClosedBy: "client",
	})
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }
