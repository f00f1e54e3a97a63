package userspace

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/goroutine"
)

// opener is a Writer whose portals are listeners of the carrier.
type opener struct {
	portal.Unsupported
	carrier *Carrier
	owners  map[service.Frontend]service.PortName
}

func (*opener) Guard(map[portal.ProxyPort]bool)                { panic("there are no proxy ports") }
func (*opener) Replace(context.Context, []portal.Portal) error { return errors.ErrUnsupported }
func (o *opener) Update(_ context.Context, all []portal.Change) (err error) {
	for _, c := range all {
		if owner, ok := o.owners[c.Frontend]; ok {
			o.carrier.Unlisten(owner, c.Frontend.Addr)
			delete(o.owners, c.Frontend)
		}
		if c.Portal == nil {
			continue
		}
		if _, redirects := c.Portal.Target.(portal.Redirect); redirects {
			o.owners[c.Frontend] = c.Portal.Owner
			err = errors.Join(err, o.carrier.Listen(c.Portal.Owner, c.Frontend.Addr))
		}
	}
	return err
}

// newOpener returns a carrier without proxy ports, on the engine that every system has.
func newOpener(t *testing.T) (*opener, *dataplane.Dataplane) {
	t.Helper()
	core, err := splice.New(splice.Options{}, goroutine.Open(goroutine.Host{}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		core.Run(ctx)
	}()
	log, _ := test.NewNullLogger()
	o := &opener{carrier: New(Options{Core: core, Log: log, Direct: NewDirect()}),
		owners: map[service.Frontend]service.PortName{}}
	t.Cleanup(func() {
		o.carrier.Close()
		cancel()
		<-done
	})
	return o, dataplane.New(dataplane.Options{Writer: o, Userspace: o.carrier, Mode: service.ModeUserspace})
}

// freePort is one at which nothing listens, at an address from which no other test dials.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.31.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

func apply(t *testing.T, plane *dataplane.Dataplane, changes ...service.Change) {
	t.Helper()
	if err := plane.Sync(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
}

// hears returns the answer that a client at an address gets.
func hears(at netip.AddrPort) (string, error) {
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	said, err := io.ReadAll(c)
	return string(said), err
}

// Without proxy ports, a front listens where portals lead to it, and nowhere once none does. It refuses clients itself
// while there is no endpoint.
func TestDirect(t *testing.T) {
	o, plane := newOpener(t)
	at := freePort(t)
	cart := portOf("cart", at.String(), greeter(t))
	apply(t, plane, service.Change{Name: cart.Name, Port: cart})
	if said, err := hears(at); said != "hello" {
		t.Errorf("a client hears %q, %v", said, err)
	}
	if err := o.carrier.Listen(cart.Name, at); err != nil {
		t.Errorf("once more: %v", err)
	}
	none := portOf("cart", at.String())
	apply(t, plane, service.Change{Name: none.Name, Port: none})
	wine := runtime.GOOS == "windows" // which shows a reset as an end, if it came before the read began
	if said, err := hears(at); said != "" || err == nil && !wine {
		t.Errorf("without endpoints a client hears %q, %v", said, err)
	}
	apply(t, plane, service.Change{Name: cart.Name})
	for deadline := time.Now().Add(20 * time.Second); ; { // the engine closes the socket in its own time
		if _, err := net.Dial("tcp", at.String()); err != nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("a frontend that is gone accepts clients")
		}
	}
	if len(o.carrier.fronts.byKey) != 0 {
		t.Errorf("%d fronts are left", len(o.carrier.fronts.byKey))
	}
	if err := o.carrier.Listen(cart.Name, at); err == nil {
		t.Error("it listens for a service port that is not served")
	}
}

// Over UDP nobody listens for a Service without endpoints: a record for each datagram would be of no use.
func TestDirectUDPWithoutEndpoints(t *testing.T) {
	o, plane := newOpener(t)
	talk := portOf("talk", freePort(t).String())
	talk.Name.Protocol, talk.Exposures[0].Frontend.Protocol = inet.UDP, inet.UDP
	apply(t, plane, service.Change{Name: talk.Name, Port: talk})
	if len(o.carrier.fronts.byKey) != 0 || len(o.owners) != 0 {
		t.Errorf("%d fronts, listeners %v", len(o.carrier.fronts.byKey), o.owners)
	}
}

// A frontend that passes to another Service, or comes back at once, finds the socket of before still closing.
func TestDirectAgain(t *testing.T) {
	_, plane := newOpener(t)
	at, pod := freePort(t), greeter(t)
	cart, shop := portOf("cart", at.String(), pod), portOf("shop", at.String(), pod)
	for range 20 {
		apply(t, plane, service.Change{Name: cart.Name, Port: cart})
		apply(t, plane, service.Change{Name: cart.Name}, service.Change{Name: shop.Name, Port: shop})
		if said, err := hears(at); said != "hello" {
			t.Fatalf("a client hears %q, %v", said, err)
		}
		apply(t, plane, service.Change{Name: shop.Name})
	}
}

// A connection and the address that it came by outlive its frontend.
func TestDirectConnectionOutlivesFrontend(t *testing.T) {
	o, plane := newOpener(t)
	at, occupied := freePort(t), make(chan struct{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		<-occupied
		io.WriteString(c, "hello")
		c.Close()
	}()
	cart := portOf("cart", at.String(), ln.Addr().String())
	apply(t, plane, service.Change{Name: cart.Name, Port: cart})
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for len(o.carrier.Carried()) == 0 { // it is accepted in its own time
	}
	apply(t, plane, service.Change{Name: cart.Name})
	if _, carried := o.carrier.Carried()[at.Addr()]; !carried {
		t.Errorf("carried: %v", o.carrier.Carried())
	}
	close(occupied)
	if said, err := io.ReadAll(c); string(said) != "hello" {
		t.Errorf("the client hears %q, %v", said, err)
	}
}

// An address that somebody else has is an error by which it can be told.
func TestDirectAddressInUse(t *testing.T) {
	o, _ := newOpener(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cart := portOf("cart", ln.Addr().String(), "10.1.0.1:80")
	if _, err := o.carrier.Serve(cart); err != nil {
		t.Fatal(err)
	}
	if err := o.carrier.Listen(cart.Name, cart.Exposures[0].Frontend.Addr); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen: %v", err)
	}
}
