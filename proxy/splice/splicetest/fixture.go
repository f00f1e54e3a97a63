package splicetest

import (
	"net/netip"
	"time"

	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// Record is a connection that went well at the second try.
func Record() *splice.Record {
	return &splice.Record{
		ID:          7,
		CarriedBy:   splice.Userspace,
		Start:       time.Date(2026, 11, 21, 13, 0, 1, 123456789, time.FixedZone("", 3600)),
		Service:     service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: service.TCP},
		Client:      addr("10.0.0.9:41234"),
		OriginalDst: addr("10.96.0.10:80"),
		Portal:      service.ClusterIP,
		Endpoint:    service.Endpoint{Addr: addr("10.1.0.3:8080"), Pod: "shop/cart-a", Node: "node-1"},
		Attempts: []splice.Attempt{
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
		ClosedBy:          splice.Client,
		CloseType:         splice.FIN,
		Outcome:           splice.OutcomeOK,
	}
}

// Stray is a connection that came straight to the proxy port and was refused.
func Stray() *splice.Record {
	return &splice.Record{
		ID:          8,
		CarriedBy:   splice.Userspace,
		Start:       time.Date(2026, 11, 21, 12, 0, 2, 0, time.UTC),
		Service:     service.PortName{Namespace: "shop", Name: "dns", Protocol: service.UDP},
		Client:      addr("[fd00::9]:41234"),
		OriginalDst: netip.AddrPort{},
		Connect:     -1,
		FirstByte:   -1,
		Duration:    30 * time.Microsecond,
		ClosedBy:    splice.Proxy,
		CloseType:   splice.Reset,
		Outcome:     splice.OutcomeNotPortal,
	}
}
