package userspace

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

// front is the listener of one service port in one family, and its balancers.
type front struct {
	*splice.Front
	balancers [2]*balance.Balancer // by service.Scope
	port      uint16
	loopback  map[netip.AddrPort]bool // NodePorts at the loopback address; false: not to be had
	used      bool                    // some portal is to lead here
}

func newFront() *front {
	return &front{
		balancers: [2]*balance.Balancer{balance.New(balance.Options{}), balance.New(balance.Options{})},
		loopback:  map[netip.AddrPort]bool{},
	}
}

// serve brings the fronts of a service port up to date and returns where its portals are to lead.
func (d *Dataplane) serve(p *service.Port) ([]portal.Portal, error) {
	portals := make([]portal.Portal, 0, len(p.Exposures))
	var errs []error
	for _, ipv6 := range []bool{false, true} {
		mine := exposures(p, ipv6)
		u := usableOf(p, ipv6, mine)
		f, err := d.front(p, ipv6, mine, u)
		if err != nil {
			errs = append(errs, err)
		}
		for _, x := range mine {
			portals = append(portals, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: f.target(u, p, x.Kind)})
		}
	}
	return portals, errors.Join(errs...)
}

// target is where portals of that kind lead when the front, if any, is what there is to lead to.
func (f *front) target(u usable, p *service.Port, kind service.Kind) portal.Target {
	if f != nil {
		return u.target(p, kind, f.port)
	}
	if t := u.target(p, kind, 0); !redirects(t) {
		return t
	}
	return portal.Reject{}
}

// front opens the front of a service port in one family if it is wanted, or brings the one it has up to date. One that
// is not wanted any more stays until portals have left it, and is nil here.
func (d *Dataplane) front(p *service.Port, ipv6 bool, mine []service.Exposure, u usable) (*front, error) {
	key := frontKey{p.Name, ipv6}
	f := d.fronts[key]
	if !u.wantsFront(p, mine) {
		if f != nil {
			f.used = false
		}
		return nil, nil
	}
	if f == nil {
		f = newFront()
	}
	f.used = true
	for scope, b := range f.balancers {
		b.SetAffinity(p.Affinity)
		b.SetEndpoints(addresses(u[scope]))
	}
	view := &splice.View{Port: p, Exposures: mine, Endpoints: endpoints(p, ipv6)}
	if f.Front == nil {
		if err := d.open(f, p.Name, ipv6, view); err != nil {
			return nil, err
		}
		d.keep(key, f)
	} else {
		f.Retarget(view)
	}
	d.serveLoopback(f, mine, ipv6)
	return f, nil
}

// open takes a proxy port that is free and listens there.
func (d *Dataplane) open(f *front, name service.PortName, ipv6 bool, view *splice.View) error {
	any := netip.IPv4Unspecified()
	if ipv6 {
		any = netip.IPv6Unspecified()
	}
	pickers := splice.Pickers{f.balancers[service.ClusterScope], f.balancers[service.NodeScope]}
	port, err := d.ports.take(name.Protocol, func(port uint16) (retry bool, err error) {
		f.Front, err = d.opts.Engine.Open(name, pickers, view, netip.AddrPortFrom(any, port))
		return errors.Is(err, syscall.EADDRINUSE), err
	})
	if err != nil {
		f.Front = nil
		return fmt.Errorf("serve %s: %w", name, err)
	}
	f.port = port
	return nil
}

// serveLoopback serves the NodePorts of a front at the loopback address: a real listener, since traffic to it cannot be
// led elsewhere without opening the loopback network to neighbours (route_localnet).
func (d *Dataplane) serveLoopback(f *front, mine []service.Exposure, ipv6 bool) {
	wanted := map[netip.AddrPort]bool{}
	for _, x := range mine {
		if d.opts.Localhost && x.Kind == service.NodePort {
			wanted[netip.AddrPortFrom(loopback(ipv6), x.Frontend.Addr.Port())] = true
		}
	}
	for at, open := range f.loopback {
		if !wanted[at] {
			if open {
				f.Unlisten(at)
			}
			delete(f.loopback, at)
		}
	}
	for at := range wanted {
		if open, said := f.loopback[at]; open {
			continue
		} else if err := f.Listen(at); err != nil {
			f.loopback[at] = false
			if !said {
				d.opts.Log.WithError(err).WithField("service", f.Name().Label()).Warn("NodePort is not served at the loopback address")
			}
		} else {
			f.loopback[at] = true
		}
	}
}

func loopback(ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

func addresses(endpoints []service.Endpoint) []netip.AddrPort {
	out := make([]netip.AddrPort, 0, len(endpoints))
	for _, e := range endpoints {
		out = append(out, e.Addr)
	}
	return out
}

// asChanges lists portals as changes.
func asChanges(portals []portal.Portal) []portal.Change {
	out := make([]portal.Change, 0, len(portals))
	for _, p := range portals {
		out = append(out, portal.Change{Frontend: p.Frontend, Portal: &p})
	}
	return out
}

// newest keeps the last change of each frontend: one that passes from one Service to another changes twice.
func newest(changes []portal.Change) []portal.Change {
	at := make(map[service.Frontend]int, len(changes))
	out := changes[:0]
	for _, c := range changes {
		if i, ok := at[c.Frontend]; ok {
			out[i] = c
			continue
		}
		at[c.Frontend] = len(out)
		out = append(out, c)
	}
	return out
}
