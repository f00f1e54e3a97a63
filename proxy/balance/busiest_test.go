package balance

import (
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

func TestBusiest(t *testing.T) {
	all := NewEndpoints()
	open := func(name string, protocol inet.Protocol, endpoint, leases int) {
		b := New(all, service.PortName{Name: name, Protocol: protocol}, Options{})
		b.SetEndpoints(endpoints(endpoint)[endpoint-1:])
		for range leases {
			pickOne(t, b)
		}
	}
	if n := all.Busiest(inet.TCP); n != 0 {
		t.Error(n)
	}
	open("cart", inet.TCP, 1, 3)
	open("shop", inet.TCP, 1, 2) // another Service of the same pod
	open("cart", inet.TCP, 2, 4)
	open("dns", inet.UDP, 1, 9)
	if tcp, udp := all.Busiest(inet.TCP), all.Busiest(inet.UDP); tcp != 5 || udp != 9 {
		t.Errorf("%d and %d, want 5 and 9", tcp, udp)
	}
}
