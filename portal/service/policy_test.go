package service

import (
	"testing"
	"time"
)

func TestPolicyOr(t *testing.T) {
	defaults := Policy{
		ConnectTimeouts: []time.Duration{time.Second}, HedgeAfter: time.Minute, HalfClose: time.Hour,
		Idle: Never, UDPIdle: time.Minute, MaxConnections: 9, ClientAddress: AddressNode, Shares: Shares{7, 8, 9, 10},
	}
	if got := (Policy{}).Or(defaults); !got.Equal(defaults) {
		t.Errorf("nothing said: %+v", got)
	}
	own := Policy{
		ConnectTimeouts: []time.Duration{1, 2}, HedgeAfter: 3, HalfClose: Never, Idle: 1, UDPIdle: 2, MaxConnections: -1,
		ClientAddress: AddressProxyV2, Shares: Shares{-1, 5, -1, -1},
	}
	if got := own.Or(defaults); !got.Equal(own) {
		t.Errorf("all said: %+v", got)
	}
}

func TestClientAddressWords(t *testing.T) {
	for _, a := range []ClientAddress{AddressNode, AddressTransparent, AddressProxyV2} {
		if got, ok := ParseClientAddress(a.String()); !ok || got != a {
			t.Errorf("%q is read as %v", a, got)
		}
	}
	for _, word := range []string{"", "Node", "proxy"} {
		if _, ok := ParseClientAddress(word); ok {
			t.Errorf("%q is read", word)
		}
	}
}
