// Package recordtest has sample records, for tests of packages that read records.
package recordtest

import (
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// Sample is a connection that went well at the second try.
func Sample() *record.Record {
	return &record.Record{
		ID:          7,
		CarriedBy:   record.Userspace,
		Start:       time.Date(2026, 11, 21, 13, 0, 1, 123456789, time.FixedZone("", 3600)),
		Service:     service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP},
		Client:      addr("10.0.0.9:41234"),
		OriginalDst: addr("10.96.0.10:80"),
		Portal:      service.ClusterIP,
		Endpoint:    service.Endpoint{Addr: addr("10.1.0.3:8080"), Pod: "shop/cart-a", Node: "node-1"},
		Attempts: []record.Attempt{
			{Endpoint: addr("10.1.0.2:8080"), Proxy: addr("10.0.0.1:35010"), Took: 200 * time.Microsecond,
				Err: "connection refused"},
			{Endpoint: addr("10.1.0.3:8080"), Proxy: addr("10.0.0.1:35012"), Took: 150 * time.Microsecond},
		},
		Affinity:          "moved",
		BytesFromClient:   1234,
		BytesToEndpoint:   1234,
		BytesFromEndpoint: 45_001,
		BytesToClient:     45_001,
		Connect:           401234 * time.Nanosecond,
		FirstByte:         1100 * time.Microsecond,
		Duration:          12 * time.Millisecond,
		ClosedBy:          record.Client,
		CloseType:         record.FIN,
		Outcome:           record.OutcomeOK,
	}
}

// Stray is a connection that came straight to the proxy port and was refused.
func Stray() *record.Record {
	return &record.Record{
		ID:          8,
		CarriedBy:   record.Userspace,
		Start:       time.Date(2026, 11, 21, 12, 0, 2, 0, time.UTC),
		Service:     service.PortName{Namespace: "shop", Name: "dns", Protocol: inet.UDP},
		Client:      addr("[fd00::9]:41234"),
		OriginalDst: netip.AddrPort{},
		Connect:     -1,
		FirstByte:   -1,
		Duration:    30 * time.Microsecond,
		ClosedBy:    record.Proxy,
		CloseType:   record.Reset,
		Outcome:     record.OutcomeNotPortal,
	}
}

// Endpoint is an endpoint; its words are of its conditions: ready, local, draining.
func Endpoint(addr string, words ...string) service.Endpoint {
	e := service.Endpoint{Addr: netip.MustParseAddrPort(addr)}
	for _, w := range words {
		switch w {
		case "ready":
			e.Ready, e.Serving = true, true
		case "local":
			e.Local = true
		case "draining":
			e.Serving, e.Terminating = true, true
		}
	}
	return e
}
