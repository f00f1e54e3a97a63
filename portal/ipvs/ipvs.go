// Package ipvs writes portals that spread as virtual servers of the kernel's IPVS, which forwards by NAT. Their
// addresses are on a dummy device, and the rules that IPVS needs beside it (Chains) look up in ipsets which flows to
// masquerade, drop or accept. Portals with other targets are passed on to another Writer, whose redirects apply
// before IPVS sees a packet: so a Service may change its mode while its connections live on. It does not know what
// writes the rules.
//
//	if err := ipvs.Usable(o); err != nil { ... } // names the missing kernel module, and what to do
//	rules, err := iptables.New(ctx, ...)         // with Extra: ipvs.Chains(o)
//	o.Rules = rules
//	w, err := ipvs.New(o)
//	err = w.Replace(ctx, portals)
//
// A removed endpoint keeps weight 0 while it has connections, and so does each endpoint of a removed virtual server:
// Sweep removes what is idle. For UDP they are removed at once.
//
// Limits of IPVS:
//
//   - A virtual server has one set of endpoints for all clients. An external frontend in NodeScope has those of this
//     node, so clients inside the cluster get these too. While this node has none, clients inside get those of the
//     cluster, and flows of clients outside are dropped.
//   - Affinity is kept for each frontend: a client that dials another frontend of a Service may get another endpoint.
//     A client is remembered as long as any of its connections, which is some minutes after the last packet, however
//     short the timeout of the affinity.
//   - Answers are told apart by the endpoint and the client's address and port: of two connections that a client has
//     from one port to one endpoint, by two frontends, the older one receives nothing any more.
//   - Between one scheduler of a virtual server and another the kernel has none for some milliseconds, and refuses new
//     connections. Open ones live on.
//   - This node's own clients dial a frontend from the frontend's address, so they are masqueraded even where pods
//     are not known.
package ipvs

import (
	"context"
	"errors"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

var _ portal.Writer = (*Writer)(nil)

// Features say what it can do with its Rules.
func (w *Writer) Features() portal.Features {
	f := w.Rules.Features()
	return portal.Features{IPv6: w.v6, Adopts: f.Adopts, Opens: f.Opens, CountsRefused: f.CountsRefused}
}

// CountRefused counts the packets at portals that are the Rules'. Clients outside the cluster that a Local policy
// excludes are dropped by one rule for all virtual servers, and not counted.
func (w *Writer) CountRefused(ctx context.Context) error { return w.Rules.CountRefused(ctx) }

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
	w.look = func() (kernel, error) { return openKernel(w.names.device) }
	w.v6 = o.Rules.Features().IPv6 && k.speaksIPv6()
	return w, nil
}

func newWriter(o Options, k kernel) *Writer {
	w := &Writer{Options: o, kernel: k, names: newNames(o.Prefix), tried: tries(k.hasScheduler)}
	w.live = writer.NewLive(writer.Settings{LocalDetector: o.LocalDetector, NodePortAddresses: o.NodePortAddresses})
	w.reset()
	return w
}

// Guard says which proxy ports were opened and closed. Redirects are the Rules'.
func (w *Writer) Guard(changes map[portal.ProxyPort]bool) {
	w.guard = w.guard || len(changes) > 0
	w.Rules.Guard(changes)
}

// Open says at which ports health checks of load balancers are answered. Letting them in is the Rules'.
func (w *Writer) Open(changes map[uint16]bool) {
	w.guard = w.guard || len(changes) > 0
	w.Rules.Open(changes)
}

// Replace makes the kernel hold exactly these portals. Endpoints that stay keep their connections, and so do virtual
// servers of other programs.
func (w *Writer) Replace(ctx context.Context, portals []portal.Portal) error {
	return w.state.Full(func() error {
		w.reset()
		valid, invalid := w.valid(portals)
		return w.done("replace", errors.Join(invalid, w.replace(ctx, valid, portals)))
	})
}

// replace writes what is valid. The Rules are given all portals of theirs, and check them.
func (w *Writer) replace(ctx context.Context, valid, all []portal.Portal) error {
	if err := errors.Join(w.prepare(), w.readHost()); err != nil {
		return err
	}
	w.countPods()
	for _, p := range valid {
		w.put(p)
	}
	if err := w.readServers(); err != nil {
		return err
	}
	return w.apply(ctx, w.frontends(), func() error { return w.replaceRules(ctx, all) })
}

// Update applies changes. Its cost grows with their endpoints, and with nothing else.
func (w *Writer) Update(ctx context.Context, changes []portal.Change) error {
	return w.state.Incremental("update", func() error { return w.update(ctx, changes) })
}

func (w *Writer) update(ctx context.Context, changes []portal.Change) error {
	valid, invalid := w.validChanges(changes)
	var touched []service.Frontend
	var rules []portal.Change
	for _, c := range valid {
		before, existed := w.portals[c.Frontend]
		w.change(c)
		touched = append(touched, w.node.servers(c.Frontend)...)
		switch {
		case c.Portal != nil && !spreads(*c.Portal):
			rules = append(rules, c)
		case existed && !spreads(before):
			rules = append(rules, portal.Change{Frontend: c.Frontend})
		}
	}
	err := w.apply(ctx, touched, func() error { return w.updateRules(ctx, rules) })
	return w.done("update", errors.Join(invalid, err))
}

// Cleanup removes everything of ours: rules before the sets that they look into, and virtual servers with their
// connections.
func (w *Writer) Cleanup(ctx context.Context) error {
	w.reset()
	errs := []error{w.Rules.Cleanup(ctx), w.readHost(), w.readServers()}
	for f := range w.servers {
		errs = append(errs, w.removeServer(f))
	}
	errs = append(errs, w.removeDevice())
	for _, name := range w.names.all() {
		errs = append(errs, w.destroySet(name))
	}
	w.reset()
	return w.done("remove", errors.Join(errs...))
}
