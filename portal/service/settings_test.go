package service

import (
	"slices"
	"testing"
	"time"
)

// The daemon's defaults set every field, so that nothing is left open where a Service sets nothing.
func TestDefaultPolicy(t *testing.T) {
	want := Policy{
		ConnectTimeouts: []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second},
		HalfClose:       time.Hour, Idle: Never, UDPIdle: time.Minute, MaxConnections: -1, ClientAddress: AddressNode,
		Algorithm: RoundRobin, SlowStart: Never,
		EjectAfter: 3, RetryBudget: 20,
		HedgeAfter: Never, Logging: Logging{RecordsAll, 1},
		KernelRecords: RecordsOff,
		Shares:        Shares{-1, -1, -1, 1024},
		Removed:       RemovedEndpoint{Do: KeepConnections}, DeadPeer: 3 * time.Minute, MaxAge: Age{Time: Never},
		RetryOn:         RetryConnect,
		WaitForEndpoint: Never,
	}
	if got := DefaultPolicy(); !got.Equal(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestConnectTimeoutsAreOneForEachDial(t *testing.T) {
	daemon := Policy{ConnectTimeouts: []time.Duration{1, 2, 3}}
	for _, c := range []struct{ own, want []time.Duration }{
		{nil, []time.Duration{1}}, {nil, []time.Duration{1, 2}}, {nil, []time.Duration{1, 2, 3, 3, 3}},
		{[]time.Duration{7, 8}, []time.Duration{7}}, {[]time.Duration{7, 8}, []time.Duration{7, 8, 8}},
	} {
		p := Policy{ConnectTimeouts: c.own, Dials: len(c.want)}.Or(daemon)
		if !slices.Equal(p.ConnectTimeouts, c.want) || p.Dials != 0 {
			t.Errorf("%v for %d dials: %v", c.own, len(c.want), p)
		}
	}
}
