// Package ipvs holds portals that spread flows as virtual servers of the kernel's IPVS, which forwards by NAT. Their
// addresses stand on a dummy device, and ipsets tell the rules that IPVS needs beside it (Chains) which flows to
// masquerade, drop or let in. Portals with other targets are passed on to another Writer, whose redirects come before
// IPVS sees a packet: so a Service may be flipped while its connections live on. It does not know what rules are
// written with.
//
// A removed endpoint keeps weight 0 until nobody is connected to it any more, and so does each endpoint of a virtual
// server that nobody wants: Sweep takes away what is idle. For UDP they go at once.
//
// Limits of IPVS:
//
//   - It knows one set of endpoints for each frontend. A frontend from outside in NodeScope has those of this node, so
//     clients inside the cluster are led to these too, and to those of the cluster only while this node has none;
//     clients outside are dropped meanwhile.
//   - It remembers clients for affinity by frontend: whoever dials another one of a Service may have another endpoint.
//     And it remembers them while it remembers any connection of theirs, which is some minutes after its last packet,
//     however short the affinity's timeout.
//   - It tells answers apart by endpoint and client's address and port: of two connections that a client has from one port
//     to one endpoint, by way of two frontends, the older one hears nothing any more.
//   - This node's own clients dial a frontend from that very address, so they are masqueraded even where it is not known
//     who is a pod.
package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
	"github.com/portald/portald/proxy/service"
)

// Writer holds portals in IPVS, and hands on those that are for rules. One goroutine uses it; Diverts and what begins
// with Set are for any.
type Writer struct {
	Options
	kernel
	names names
	v6    bool // both families are served
	live  *writer.Live

	at       place // the host, as of the last Replace
	portals  map[service.Frontend]portal.Portal
	servers  map[service.Frontend]*server
	foreign  map[service.Frontend]bool // virtual servers that are not to be touched
	leaving  map[service.Frontend]bool // those of servers that have endpoints to be rid of
	elements writer.Refcount[entry]
	addrs    writer.Refcount[netip.Addr] // of addresses, by portals and by virtual servers
	guards   bool                        // the Rules were told of proxy ports since they last wrote
	swept    time.Time
	state    writer.State
}

var (
	_ portal.Writer  = (*Writer)(nil)
	_ portal.Auditor = (*Writer)(nil)
)

// New returns a Writer that has changed nothing yet. An error says what the kernel lacks, and what to do.
func New(o Options) (*Writer, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if o.Rules == nil {
		return nil, errors.New("ipvs: no writer of rules was given")
	}
	if err := Usable(o); err != nil {
		return nil, err
	}
	k, err := openKernel(newNames(o.Prefix).device)
	if err != nil {
		return nil, err
	}
	w := newWriter(o, k)
	w.v6 = o.Rules.IPv6() && k.speaksIPv6()
	return w, nil
}

func newWriter(o Options, k kernel) *Writer {
	w := &Writer{Options: o, kernel: k, names: newNames(o.Prefix)}
	w.live = writer.NewLive(writer.Settings{Inside: o.Inside, NodePortAddresses: o.NodePortAddresses})
	w.forget()
	return w
}

// forget is for before it is read what the kernel holds.
func (w *Writer) forget() {
	w.state.Forget()
	w.portals = map[service.Frontend]portal.Portal{}
	w.servers = map[service.Frontend]*server{}
	w.foreign = map[service.Frontend]bool{}
	w.leaving = map[service.Frontend]bool{}
	w.elements, w.addrs = writer.NewRefcount[entry](), writer.NewRefcount[netip.Addr]()
}

// Guard says which proxy ports are open: portals that lead there are those of the Rules.
func (w *Writer) Guard(changes map[portal.ProxyPort]bool) {
	w.guards = w.guards || len(changes) > 0
	w.Rules.Guard(changes)
}

// Replace makes the kernel hold exactly these portals; what stays keeps its connections. Virtual servers of others stay.
func (w *Writer) Replace(ctx context.Context, portals []portal.Portal) error {
	return w.state.Full(func() error {
		w.forget()
		valid, invalid := w.valid(portals)
		return w.wrap("replace", errors.Join(invalid, w.replace(ctx, valid, portals)))
	})
}

// replace holds what is valid; the Rules check what is theirs of all.
func (w *Writer) replace(ctx context.Context, valid, all []portal.Portal) error {
	if err := errors.Join(w.prepare(), w.look()); err != nil {
		return err
	}
	w.pods()
	for _, p := range valid {
		w.put(p)
	}
	if err := w.readServers(); err != nil {
		return err
	}
	return w.carry(ctx, w.frontends(), func() error { return w.replaceRules(ctx, all) })
}

// Update applies changes. Its cost grows with their endpoints, and with nothing else that is held.
func (w *Writer) Update(ctx context.Context, changes []portal.Change) error {
	return w.state.Incremental("update", func() error { return w.update(ctx, changes) })
}

func (w *Writer) update(ctx context.Context, changes []portal.Change) error {
	valid, invalid := w.validChanges(changes)
	var touched []service.Frontend
	var ruled []portal.Change
	for _, c := range valid {
		before, there := w.portals[c.Frontend]
		was := there && !spreads(before)
		w.change(c)
		touched = append(touched, w.at.servers(c.Frontend)...)
		if c.Portal != nil && !spreads(*c.Portal) {
			ruled = append(ruled, c)
		} else if was {
			ruled = append(ruled, portal.Change{Frontend: c.Frontend})
		}
	}
	err := w.carry(ctx, touched, func() error { return w.updateRules(ctx, ruled) })
	return w.wrap("update", errors.Join(invalid, err))
}

// Cleanup removes everything of ours: rules before the sets that they name, and virtual servers with their connections.
func (w *Writer) Cleanup(ctx context.Context) error {
	w.forget()
	errs := []error{w.Rules.Cleanup(ctx), w.look(), w.readServers()}
	for f := range w.servers {
		errs = append(errs, w.removeServer(f))
	}
	errs = append(errs, w.removeDevice())
	for _, name := range w.names.all() {
		errs = append(errs, w.destroySet(name))
	}
	w.forget()
	return w.wrap("remove", errors.Join(errs...))
}

func (w *Writer) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s portals in IPVS: %w", verb, err)
}
