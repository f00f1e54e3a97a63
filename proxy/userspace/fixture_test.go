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

func portOf(name, frontend string, endpoints ...string) *service.Port {
	p := &service.Port{Name: service.PortName{Namespace: "shop", Name: name, Port: "p", Protocol: inet.TCP},
		Created: time.Unix(1, 0)}
	expose(p, frontend, service.ClusterIP)
	for _, e := range endpoints {
		p.Endpoints = append(p.Endpoints, service.Endpoint{Addr: netip.MustParseAddrPort(e), Ready: true, Serving: true})
	}
	return p
}

func expose(p *service.Port, frontend string, kind service.Kind) {
	f := service.Frontend{Addr: netip.MustParseAddrPort(frontend), Protocol: p.Name.Protocol}
	p.Exposures = append(p.Exposures, service.Exposure{Frontend: f, Kind: kind})
}

// greeter says "hello" to each connection and closes it, until the test ends.
func greeter(t *testing.T) (addr string) {
	t.Helper()
	return serve(t, func(c net.Conn) {
		io.WriteString(c, "hello")
		c.Close()
	})
}

// echoServer sends back what it receives, until the test ends.
func echoServer(t *testing.T) (addr string) {
	t.Helper()
	return serve(t, func(c net.Conn) { io.Copy(c, c) })
}

func serve(t *testing.T, each func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go each(c)
		}
	}()
	return ln.Addr().String()
}
