package ipvs

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// sweepPeriod is how often a Sweep looks for servers that are idle by now.
const sweepPeriod = 10 * time.Second

// drainEndpoints drains all endpoints of a server but those that stay, and tells whether there are any.
func (w *Writer) drainEndpoints(
	front service.Frontend, s *server, stay map[netip.AddrPort]int,
) (drains bool, err error) {
	for _, addr := range ordered(s.weights) {
		if _, stays := stay[addr]; stays {
			continue
		}
		drains = true
		if front.Protocol == inet.UDP {
			err = w.removeDestination(front, addr)
			delete(s.weights, addr)
		} else {
			err = w.applyEndpoint(front, s, addr, weightDraining)
		}
		if err != nil {
			return true, err
		}
	}
	return drains, nil
}

// drainServer drains a server that is not wanted.
func (w *Writer) drainServer(front service.Frontend) error {
	if _, err := w.drainEndpoints(front, w.servers[front], nil); err != nil {
		return err
	}
	return w.removeIdle(front)
}

// removeIdle removes the endpoints of a server that drain and have no connections, and with the last of them a server
// that is not wanted.
func (w *Writer) removeIdle(front service.Frontend) error {
	s := w.servers[front]
	installed, err := w.destinations(front)
	if err != nil {
		return err
	}
	busy := slices.DeleteFunc(installed, func(d destination) bool { return d.weight != weightDraining || d.conns == 0 })
	if _, wanted := w.wanted(front); !wanted && len(busy) == 0 {
		if err := w.removeServer(front); err != nil {
			return err
		}
		delete(w.servers, front)
		delete(w.draining, front)
		w.countServer(front, -1)
		return nil
	}
	for _, addr := range ordered(s.weights) {
		stays := slices.ContainsFunc(busy, func(d destination) bool { return d.addr == addr })
		if s.weights[addr] != weightDraining || stays {
			continue
		}
		if err := w.removeDestination(front, addr); err != nil {
			return err
		}
		delete(s.weights, addr)
	}
	if len(busy) == 0 {
		delete(w.draining, front)
	} else {
		w.draining[front] = true
	}
	return nil
}

// Sweep removes endpoints and virtual servers that no portal leads to and nobody is connected to any more, and
// returns when to look again; zero: there are none.
func (w *Writer) Sweep(context.Context) (next time.Time, err error) {
	switch due := w.swept.Add(sweepPeriod); {
	case len(w.draining) == 0:
		return time.Time{}, nil
	case time.Now().Before(due):
		return due, nil
	}
	err = w.state.Incremental("sweep", func() error { return w.done("sweep", w.sweep()) })
	return w.swept.Add(sweepPeriod), err
}

func (w *Writer) sweep() error {
	w.swept = time.Now()
	var f failures
	for _, front := range slices.SortedFunc(maps.Keys(w.draining), service.Frontend.Compare) {
		f.add(w.removeIdle(front))
	}
	f.add(w.removeUnused())
	return f.err()
}
