package netsh

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

type listeners map[netip.AddrPort]service.PortName

func (l listeners) Listen(owner service.PortName, at netip.AddrPort) error {
	l[at] = owner
	return nil
}

func (l listeners) Unlisten(_ service.PortName, at netip.AddrPort) { delete(l, at) }

func TestClusterIP(t *testing.T) {
	var commands [][]string
	open := listeners{}
	w, err := New(Options{
		Listeners: open, State: filepath.Join(t.TempDir(), "state"),
		Interfaces: func() ([]Interface, error) { return []Interface{{Name: DefaultInterface, Index: 7}}, nil },
		Run: func(_ context.Context, args ...string) (Result, error) {
			commands = append(commands, args)
			return Result{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort("10.96.0.10:80")
	cart := service.PortName{Namespace: "shop", Name: "cart", Protocol: service.TCP}
	p := portal.Portal{
		Frontend: service.Frontend{Addr: at, Protocol: service.TCP}, Owner: cart, Target: portal.Redirect{},
	}
	if err := w.Replace(t.Context(), []portal.Portal{p}); err != nil {
		t.Fatal(err)
	}
	if len(commands) != 1 || !slices.Contains(commands[0], "address=10.96.0.10") || open[at] != cart {
		t.Errorf("commands %q, listeners %v", commands, open)
	}
}
