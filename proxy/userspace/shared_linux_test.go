package userspace

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// What finds no proxy port of its own shares one, which is open as long as somebody does.
func TestServicePortsShareProxyPorts(t *testing.T) {
	r := newRig(t, inet.PortRange{First: 31100, Last: 31131})
	var all []*service.Port
	for i := range 40 {
		all = append(all, portOf(fmt.Sprint("s", i), fmt.Sprintf("10.96.0.%d:80", i), "10.244.0.1:8080"))
	}
	r.sync(t, all...)
	if len(r.refusals) > 0 {
		t.Fatalf("refused: %v", r.refusals)
	}
	of := map[uint16][]*service.Port{}
	for _, p := range all {
		to, ok := r.written.Portals[p.Exposures[0].Frontend].Target.(portal.Redirect)
		if !ok || to.Port == 0 {
			t.Fatalf("%s leads to %+v", p.Name, r.written.Portals[p.Exposures[0].Frontend].Target)
		}
		of[to.Port] = append(of[to.Port], p)
	}
	var shared uint16
	for port, some := range of {
		if len(some) > 1 && shared != 0 {
			t.Errorf("%d and %d are shared", shared, port)
		}
		if len(some) > 1 {
			shared = port
		}
	}
	sharers := of[shared]
	if own := len(all) - len(sharers); own < 25 || own > 30 {
		t.Fatalf("%d have a port of their own", own)
	}
	listens := func() bool { // though it resets who comes past all portals
		c, err := net.Dial("tcp", netip.AddrPortFrom(insider, shared).String())
		if err == nil {
			c.Close()
		}
		return !errors.Is(err, syscall.ECONNREFUSED)
	}
	if n := r.PortSharers(); n != len(sharers) {
		t.Errorf("%d sharers are counted, want %d", n, len(sharers))
	}
	for i, p := range sharers {
		if !listens() {
			t.Fatalf("the shared port is closed while %d share it", len(sharers)-i)
		}
		if err := r.plane.Sync(t.Context(), []service.Change{{Name: p.Name}}); err != nil {
			t.Fatal(err)
		}
	}
	if !listens() {
		t.Error("the shared port closes at once: connections may be on their way to it")
	}
	for end := time.Now().Add(time.Minute); listens(); time.Sleep(10 * time.Millisecond) {
		if _, err := r.plane.Sweep(t.Context()); err != nil || time.Now().After(end) {
			t.Fatalf("the shared port stays open: %v", err)
		}
	}
}
