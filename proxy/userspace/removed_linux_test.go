package userspace

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Connections learn that their endpoint went also where it was the last one, or the Service goes, which closes the
// front. They do not where the kernel has the Service from then on, and not where the endpoint comes back in time.
func TestConnectionsOfRemovedEndpoints(t *testing.T) {
	const after = 400 * time.Millisecond
	without := func(p *service.Port) *service.Port { p.Endpoints = nil; return p }
	notReady := func(p *service.Port) *service.Port {
		p.Endpoints[0].Ready, p.Endpoints[0].Serving = false, false
		return p
	}
	byKernel := func(p *service.Port) *service.Port { p.Mode = service.ModeKernel; return p }
	none := func(*service.Port) *service.Port { return nil }
	same := func(p *service.Port) *service.Port { return p }
	for i, c := range []struct {
		name   string
		change []func(*service.Port) *service.Port
		ends   bool
	}{
		{"the last endpoint goes", []func(*service.Port) *service.Port{without}, true},
		{"the last endpoint is not ready", []func(*service.Port) *service.Port{notReady}, true},
		{"the Service goes", []func(*service.Port) *service.Port{none}, true},
		{"the kernel has it", []func(*service.Port) *service.Port{byKernel}, false},
		{"the endpoint comes back", []func(*service.Port) *service.Port{without, same}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(31300+i))
			r, echo := newRig(t, inet.PortRange{First: at.Port(), Last: at.Port()}), echoServer(t)
			port := func() *service.Port {
				p := portOf("cart", at.String(), echo)
				p.Policy.Removed = service.RemovedEndpoint{Do: service.ResetConnections, After: after}
				return p
			}
			r.sync(t, port())
			conn, err := net.Dial("tcp", at.String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			exchange := func() error {
				conn.SetDeadline(time.Now().Add(5 * time.Second))
				conn.Write([]byte("x"))
				_, err := io.ReadFull(conn, make([]byte, 1))
				return err
			}
			if err := exchange(); err != nil {
				t.Fatal(err)
			}
			for _, change := range c.change {
				p := change(port())
				if err := r.plane.Sync(t.Context(), []service.Change{{Name: port().Name, Port: p}}); err != nil {
					t.Fatal(err)
				}
			}
			conn.SetReadDeadline(time.Now().Add(3 * after))
			_, err = conn.Read(make([]byte, 1))
			if late, is := err.(net.Error); c.ends == (is && late.Timeout()) {
				t.Errorf("ended by %v, want an end: %t", err, c.ends)
			}
			if err := exchange(); !c.ends && err != nil {
				t.Errorf("then: %v", err)
			}
		})
	}
}
