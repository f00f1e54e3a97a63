package balance

import (
	"testing"

	"github.com/portald/portald/proxy/service"
)

func TestBusiest(t *testing.T) {
	all := NewEndpoints()
	open := func(name string, protocol service.Protocol, endpoint, leases int) {
		b := New(all, service.PortName{Name: name, Protocol: protocol}, Options{})
		b.SetEndpoints(endpoints(endpoint)[endpoint-1:])
		for range leases {
			pickOne(t, b)
		}
	}
	if n := all.Busiest(service.TCP); n != 0 {
		t.Error(n)
	}
	open("cart", service.TCP, 1, 3)
	open("shop", service.TCP, 1, 2) // another Service of the same pod
	open("cart", service.TCP, 2, 4)
	open("dns", service.UDP, 1, 9)
	if tcp, udp := all.Busiest(service.TCP), all.Busiest(service.UDP); tcp != 5 || udp != 9 {
		t.Errorf("%d and %d, want 5 and 9", tcp, udp)
	}
}
