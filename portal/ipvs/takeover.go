package ipvs

import (
	"context"
	"errors"
	"fmt"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// Adopt takes over the virtual servers, sets and addresses of an earlier run, if the kernel holds exactly these portals
// and the Rules can go on too. Endpoints and virtual servers that an earlier run drains are drained further. Kernel
// settings are made in any case.
func (w *Writer) Adopt(ctx context.Context, portals []portal.Portal) error {
	return w.state.Full(func() error {
		w.reset()
		err := w.takeOver(ctx, portals)
		if err != nil {
			w.reset()
		}
		return w.done("adopt", err)
	})
}

func (w *Writer) takeOver(ctx context.Context, portals []portal.Portal) error {
	if !w.Rules.Features().Adopts {
		return fmt.Errorf("the writer of rules: %w", errors.ErrUnsupported)
	}
	valid, invalid := w.valid(portals)
	if err := errors.Join(invalid, w.readHost()); err != nil {
		return err
	}
	w.countPods()
	for _, p := range valid {
		w.put(p)
	}
	if err := w.readServers(); err != nil {
		return err
	}
	var drift writer.Drift
	for _, f := range w.frontends() {
		w.compareServer(f, &drift)
	}
	errs := []error{w.auditAddresses(&drift), w.auditSets(&drift)}
	if err := errors.Join(append(errs, drift.Err())...); err != nil {
		return err
	}
	w.addrs.Settle()
	w.elements.Settle()
	if err := w.prepare(); err != nil {
		return err
	}
	w.guard = false
	return w.Rules.Adopt(ctx, withoutSpreads(portals))
}

// compareServer adds how a virtual server of ours differs from what is wanted, but for endpoints that drain, which it
// notes.
func (w *Writer) compareServer(front service.Frontend, drift *writer.Drift) {
	want, wanted := w.wanted(front)
	current, exists := w.servers[front]
	switch {
	case !exists:
		if wanted {
			drift.Add("no virtual server %s", front)
		}
		return
	case wanted && current.settings != want.settings:
		drift.Add("virtual server %s is set otherwise", front)
	}
	for _, addr := range ordered(want.weights) {
		if weight, there := current.weights[addr]; !there || weight != weightServing {
			drift.Add("virtual server %s does not serve %s", front, addr)
		}
	}
	for _, addr := range ordered(current.weights) {
		if _, stays := want.weights[addr]; stays {
			continue
		}
		if current.weights[addr] != weightDraining || front.Protocol == inet.UDP {
			drift.Add("virtual server %s serves %s, which is strange", front, addr)
		}
		w.draining[front] = true
	}
	if !wanted {
		w.draining[front] = true
	}
}
