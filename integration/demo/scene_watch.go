//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

func watching() []scene {
	return []scene{{
		title: "A pod becomes a black hole, under load",
		about: "Four clients connect, send a request and close, repeatedly. cart-b drops every SYN, and the " +
			"EndpointSlice still lists it. After three dials without an answer portald ejects it: clients go to other " +
			"pods, and portald dials it once a second by itself until it answers.",
		play: hole,
	}, {
		title: "Clients wait while there is no pod",
		about: "All pods are replaced, as by a rollout with the strategy Recreate: the old ones end before the new ones " +
			"start. With portald.io/wait-for-endpoint clients are not refused meanwhile, but wait.",
		play: recreate,
	}}
}

// loaders is the number of clients of these scenes.
const loaders = 4

// downTime is how long these scenes show a pod, or all pods, that are gone.
const downTime = time.Second

// syn matches the packets that begin a connection. Open connections go on.
var syn = []string{"-p", "tcp", "--syn"}

const (
	// backWithin is the time within which a pod that answers again has its share, as the documentation promises of a
	// machine with time for it.
	backWithin = 2 * time.Second
	// mostWaits is how many times that a busy machine may take.
	mostWaits = 15
)

func hole(ctx context.Context, s *show) error {
	l := s.startLoad(loaders)
	back, err := s.fallAndRise(ctx, l)
	l.end()
	if err != nil {
		return err
	}
	records, err := s.proveLoad(ctx, l, attempts)
	if err != nil {
		return err
	}
	// All clients may be in a dial of cart-b before the third has failed, some in two; later one at a time tries it.
	met := containing(records, "[tried "+s.pods[1].Host.IPv4.String())
	if met < 3 || met > 3*loaders {
		return fmt.Errorf("%d connections dialled cart-b while it answered none, want 3 to %d", met, 3*loaders)
	}
	s.check("%s connections, 0 failed; %d of them waited for cart-b before they went to another pod; it had its share "+
		"again within %.0f s", thousands(len(records)), met, back.Seconds())
	return nil
}

// fallAndRise has a pod answer no SYN for a while, and returns when it had its share again.
func (s *show) fallAndRise(ctx context.Context, l *load) (back time.Duration, err error) {
	const b = 1
	m := newMeter(s.page, l)
	if err := m.run(ctx, "three pods serve", phase/2); err != nil {
		return 0, err
	}
	if err := s.deafen(ctx, s.pods[b], syn...); err != nil {
		return 0, err
	}
	if err := m.run(ctx, "cart-b drops every SYN", downTime); err != nil {
		return 0, err
	}
	if n := m.share(b); n > 0.01 {
		return 0, fmt.Errorf("%.0f %% of the connections go to cart-b, which answers none", n*100)
	}
	s.line("")
	endpoints, err := s.portald(ctx, "endpoints", "--service", "shop/cart:http")
	if err != nil {
		return 0, err
	}
	s.table(endpoints, "ENDPOINT", "POD", "STATE", "FAILURES", "LAST-ERROR")
	if !hasLine(endpoints, "shop/cart-b", "ejected") {
		return 0, errors.New("portald endpoints does not say that cart-b is ejected")
	}
	if err := s.hear(ctx, s.pods[b], syn...); err != nil {
		return 0, err
	}
	for m.below(); ; {
		if err := m.run(ctx, "cart-b answers again", backWithin); err != nil {
			return 0, err
		}
		back += backWithin
		if n := m.share(b); n >= 0.25 && n <= 0.42 {
			return back, nil
		} else if back >= mostWaits*backWithin {
			return 0, fmt.Errorf("cart-b has %.0f %% of the connections %v after it answers again, want a third", n*100, back)
		}
	}
}

func recreate(ctx context.Context, s *show) error {
	err := s.edit(ctx, "portald.io/wait-for-endpoint: 30s", func(m *shop) {
		m.Annotation = "portald.io/wait-for-endpoint: 30s"
	})
	if err != nil {
		return err
	}
	l := s.startLoad(loaders)
	err = s.replacePods(ctx, l)
	l.end()
	if err != nil {
		return err
	}
	records, err := s.proveLoad(ctx, l, waits)
	if err != nil {
		return err
	}
	waited := 0
	for _, r := range records {
		waited += waits(r)
	}
	if waited != loaders || l.waited < downTime {
		return fmt.Errorf("%d clients waited, the longest %v, want %d and %v at least", waited, l.waited, loaders, downTime)
	}
	s.shop.Annotation = ""
	if _, err := s.daemon.apply(ctx, s.writeManifests); err != nil {
		return err
	}
	s.check("%s connections, 0 failed; %d of them waited up to %.1f s for a pod, and were served", thousands(len(records)),
		waited, l.waited.Seconds())
	return nil
}

// waits is 1 for the record of a client that waited a second or longer.
func waits(record string) int {
	_, connect, _ := strings.Cut(record, "  connect ")
	if fields := strings.Fields(connect); len(fields) > 1 && fields[1] == "s" {
		return 1
	}
	return 0
}

// replacePods ends all pods before the next ones start, as a Deployment with the strategy Recreate does.
func (s *show) replacePods(ctx context.Context, l *load) error {
	m := newMeter(s.page, l)
	if err := m.run(ctx, "three pods serve", phase/2); err != nil {
		return err
	}
	listed := slices.Clone(s.shop.Listed)
	s.shop.Listed = nil
	if _, err := s.daemon.apply(ctx, s.writeManifests); err != nil {
		return err
	}
	if err := pause(ctx, phase/5); err != nil { // what is open ends
		return err
	}
	for _, p := range listed {
		if err := p.stop(); err != nil {
			return err
		}
	}
	if err := m.run(ctx, "all pods have ended", downTime); err != nil {
		return err
	}
	s.line("")
	conns, err := s.portald(ctx, "conns", "--service", "shop/cart:http")
	if err != nil {
		return err
	}
	s.table(conns, "ID", "SERVICE", "CLIENT", "POD", "STATE", "AGE")
	if n := containing(conns, " waiting "); n != loaders {
		return fmt.Errorf("portald conns lists %d clients that wait, want %d", n, loaders)
	}
	for _, p := range listed {
		if err := p.start(); err != nil {
			return err
		}
	}
	s.shop.Listed = listed
	if _, err := s.daemon.apply(ctx, s.writeManifests); err != nil {
		return err
	}
	m.below()
	return m.run(ctx, "the next pods are ready", phase/2)
}
