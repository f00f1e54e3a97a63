package top

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/record"
)

// market is a bed with two Services, one of them with two endpoints, a connection and a record.
func market(t *testing.T) *bed {
	b := newBed(t)
	b.services = []adminsocket.Service{
		{Name: "shop/cart:http", Protocol: "tcp", Mode: "userspace", Endpoints: 2, Usable: 2, Open: new(3),
			Ended: new(uint64(100)), Failed: new(uint64(0)), BytesUp: new(uint64(0))},
		{Name: "shop/dns", Protocol: "udp", Mode: "kernel", Endpoints: 1, Ended: new(uint64(0)), BytesUp: new(uint64(0)),
			Problem: "spec.ports[0]: no"},
	}
	dial := 1.25
	b.endpoints = []adminsocket.Endpoint{
		{Service: "shop/cart:http", Protocol: "tcp", Address: addr("10.1.1.1:8080"), Pod: "shop/cart-a", State: "used",
			Open: new(1), Dials: new(uint64(50)), DialP50ms: &dial},
		{Service: "shop/cart:http", Protocol: "tcp", Address: addr("10.1.1.2:8080"), Pod: "shop/cart-b", State: "used",
			Dials: new(uint64(50)), Failures: new(uint64(5)), LastError: "connection refused", LastErrorAt: new(time.Time)},
		{Service: "shop/cart:http", Protocol: "udp", Address: addr("10.1.1.3:8080")},
	}
	b.connections = []adminsocket.Connection{conn(1, "shop/cart:http", "10.0.0.1:1001", 1000),
		conn(2, "shop/other", "10.0.0.2:1002", 1000)}
	b.records.Observe(&record.Record{
		ID: 77, Start: time.Now(), Client: netip.MustParseAddrPort("10.0.0.7:1007"), Outcome: record.OutcomeDialFailed,
		Error:   "connection refused",
		Service: service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP},
	})
	b.serve()
	b.start()
	b.want("Services", "shop/cart:http", "shop/dns", "spec.ports[0]: no")
	return b
}

func TestServices(t *testing.T) {
	b := market(t)
	steady := b.grows(func() {
		*b.services[1].Ended += 1000
		*b.services[1].BytesUp += 1 << 42
	})
	b.want("TB/s")
	b.order("NEW/S↓", "shop/dns", "shop/cart:http") // the busiest first
	steady()
	b.change(func() { *b.services[0].Failed++ })
	b.wantNot("TB/s")
	b.change(func() { *b.services[1].Ended = 0 }) // it started again
	b.wantNot("TB/s")
}

func TestEndpointsOfAService(t *testing.T) {
	b := market(t)
	b.press("/cart")
	b.key(tcell.KeyEnter)
	b.key(tcell.KeyEnter)
	b.want("Services > shop/cart:http", "10.1.1.1:8080", "shop/cart-b", "1.2", "connection refused, ")
	b.wantNot("10.1.1.3") // of another protocol
	b.key(tcell.KeyEnter)
	b.want("Services > shop/cart:http > connections of 10.1.1.1:8080", "10.0.0.1:1001")
	b.wantNot("10.0.0.2:1002")
	b.key(tcell.KeyEscape)
	b.press("d")
	b.want("Drain 10.1.1.1:8080 (shop/cart-a) in every Service that it serves? y/n")
	b.press("y")
	b.want("Drain 10.1.1.1:8080: done in ", "drained")
	b.press("uy")
	b.want("Undrain 10.1.1.1:8080: done in ")
	b.wantNot("drained")
	b.change(func() { b.refuse = errors.New("it is the last one") })
	b.press("dy")
	b.want("Drain of shop/cart:http: it is the last one")
}

func TestConnectionsAndRecordsOfAService(t *testing.T) {
	b := market(t)
	b.press("/cart")
	b.key(tcell.KeyEnter)
	b.press("o")
	b.want("Services > connections of shop/cart:http", "10.0.0.1:1001")
	b.wantNot("10.0.0.2:1002")
	b.key(tcell.KeyEscape)
	b.press("l")
	b.want("Services > records of shop/cart:http", "dial_failed", "10.0.0.7:1007")
	b.key(tcell.KeyEnter)
	b.want("record 77", "outcome", "dial_failed")
	b.press("3")
	b.want("ENDED↓", "10.0.0.7:1007")
	b.records.Observe(&record.Record{ID: 78, Start: time.Now(), Client: addr("10.0.0.8:1008"), Outcome: record.OutcomeOK})
	b.order("10.0.0.8:1008", "10.0.0.7:1007")
}
