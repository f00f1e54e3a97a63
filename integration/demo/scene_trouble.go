//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

func trouble() []scene {
	return []scene{{
		title: "Connections to a dead pod are retried",
		about: "cart-b crashes while the EndpointSlice still lists it. Then cart-c stops answering, as if its cable " +
			"were unplugged. portald retries with another pod: no client fails, and the records list each attempt. A pod " +
			"that failed three times in a row is left out for a while.",
		play: retry,
	}, {
		title: "A pod is removed and added again, under load",
		about: "Four clients connect, send a request and close, repeatedly. cart-b is removed from the EndpointSlice, " +
			"stops, starts and is added again.",
		play: rollout,
	}}
}

func retry(ctx context.Context, s *show) error {
	b, c := s.pods[1], s.pods[2]
	if err := b.stop(); err != nil {
		return err
	}
	s.line("%s", s.ink.warn("cart-b has crashed"))
	crashed, err := s.askAll(ctx, slices.Repeat([]request{s.client("tcp", cartIP, httpPort)}, 6)...)
	if err != nil {
		return err
	}
	if err := expect(crashed, counts{"cart-a": 3, "cart-c": 3}); err != nil {
		return err
	}
	if err := s.deafen(ctx, c); err != nil {
		return err
	}
	s.line("%s", s.ink.warn("cart-c no longer answers"))
	silent, err := s.askAll(ctx, slices.Repeat([]request{s.client("tcp", cartIP, httpPort)}, 3)...)
	if err := errors.Join(err, s.hear(ctx, c), b.start()); err != nil {
		return err
	}
	if err := expect(silent, counts{"cart-a": 3}); err != nil {
		return err
	}
	s.line("%s", s.ink.warn("both answer again"))
	back, n, err := s.recovery(ctx)
	if err != nil {
		return err
	}
	records, err := s.showRecords(ctx, 9+n, 2, attempts)
	if err != nil {
		return err
	}
	retried := containing(records, "[tried "+b.Host.IPv4.String())
	timeouts := containing(records, "[tried "+c.Host.IPv4.String())
	if retried == 0 || timeouts == 0 {
		return fmt.Errorf("%d records have a failed attempt at cart-b and %d at cart-c, want some of each", retried,
			timeouts)
	}
	s.check("%d connections, 0 failed: %v with cart-b dead, then %v; failed attempts in the records: %d at cart-b, "+
		"%d at cart-c; %.1f s after both answered again all pods served",
		9+n, crashed, silent, retried, timeouts, back.Seconds())
	return nil
}

// recovery asks until each pod has answered, and returns the time and the number of questions that this took.
func (s *show) recovery(ctx context.Context) (took time.Duration, n int, err error) {
	const interval = 50 * time.Millisecond
	began, q, seen := time.Now(), s.client("tcp", cartIP, httpPort), counts{}
	for ; len(seen) < len(s.pods); n++ {
		if time.Since(began) > backWithin {
			return 0, n, fmt.Errorf("%v after all pods answer again only these served: %v", backWithin, seen)
		}
		pod, err := ask(ctx, q.from.Dial, q.network, q.address)
		if err != nil {
			return 0, n, err
		}
		seen[pod]++
		if err := pause(ctx, interval); err != nil {
			return 0, n, err
		}
	}
	return time.Since(began), n, nil
}

func rollout(ctx context.Context, s *show) error {
	before, err := s.rules(ctx)
	if err != nil {
		return err
	}
	l := s.startLoad(4)
	err = s.goAndCome(ctx, l)
	l.end()
	if err != nil {
		return err
	}
	after, err := s.rules(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(before, after) {
		return errors.New("a change of endpoints changed iptables rules")
	}
	records, err := s.proveLoad(ctx, l, nil)
	if err != nil {
		return err
	}
	s.check("%s connections, 0 failed, %[1]s records, all ok; no iptables rule changed", thousands(len(records)))
	return nil
}

// goAndCome removes a pod in the order that Kubernetes uses, and adds it again.
func (s *show) goAndCome(ctx context.Context, l *load) error {
	b := s.pods[1]
	m := newMeter(s.page, l)
	if err := m.run(ctx, "three pods serve", phase); err != nil {
		return err
	}
	s.shop.without(b)
	if _, err := s.daemon.apply(ctx, s.writeManifests); err != nil {
		return err
	}
	if err := m.run(ctx, "cart-b is removed from the EndpointSlice", phase/5); err != nil {
		return err
	}
	if err := b.stop(); err != nil {
		return err
	}
	gone := l.count("cart-b")
	if err := m.run(ctx, "cart-b has stopped", phase); err != nil {
		return err
	}
	if err := b.start(); err != nil {
		return err
	}
	s.shop.with(b)
	if _, err := s.daemon.apply(ctx, s.writeManifests); err != nil {
		return err
	}
	if err := m.run(ctx, "cart-b is back", phase); err != nil {
		return err
	}
	if l.count("cart-b") == gone {
		return errors.New("cart-b got no connections after it was added again")
	}
	return nil
}
