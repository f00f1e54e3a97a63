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

func trouble() []scene {
	return []scene{{
		title: "A dead pod is retried past",
		about: "cart-b crashes, and its EndpointSlice still lists it. Then cart-c falls silent, as with a pulled " +
			"cable. No client notices; each record tells what was tried.",
		play: retry,
	}, {
		title: "A pod goes and comes back, under load",
		about: "Four clients connect, ask and close, again and again. cart-b is taken out of the EndpointSlice, " +
			"stops, starts and is listed again.",
		play: rollout,
	}}
}

func retry(ctx context.Context, s *show) error {
	b, c := s.pods[1], s.pods[2]
	if err := b.stop(); err != nil {
		return err
	}
	s.line("%s", s.ink.warn("cart-b has crashed"))
	crashed, err := s.askAll(ctx, slices.Repeat([]question{s.client("tcp", cartIP, httpPort)}, 6)...)
	if err != nil {
		return err
	}
	if err := expect(crashed, counts{"cart-a": 3, "cart-c": 3}); err != nil {
		return err
	}
	if err := s.deafen(ctx, c); err != nil {
		return err
	}
	s.line("%s", s.ink.warn("cart-c has fallen silent"))
	silent, err := s.askAll(ctx, slices.Repeat([]question{s.client("tcp", cartIP, httpPort)}, 3)...)
	if err := errors.Join(err, s.hear(ctx, c), b.start()); err != nil {
		return err
	}
	if err := expect(silent, counts{"cart-a": 3}); err != nil {
		return err
	}
	records, err := s.showRecords(ctx, 9, 2, attempts)
	if err != nil {
		return err
	}
	retried := containing(records, "[tried "+b.Host.IPv4.String())
	timeouts := containing(records, "[tried "+c.Host.IPv4.String())
	if retried == 0 || timeouts == 0 {
		return fmt.Errorf("%d records name cart-b and %d cart-c as tried, want some of each", retried, timeouts)
	}
	s.check("9 connections, 0 failed: %v with cart-b dead, then %v; tried in vain, says the record: cart-b %d "+
		"times, cart-c %d",
		crashed, silent, retried, timeouts)
	return nil
}

// attempts counts what a record says was tried in vain.
func attempts(record string) int { return strings.Count(record, "[tried ") }

// How long each part of the rollout lasts. The whole makes some thousand connections.
const phase = 1300 * time.Millisecond

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
		return errors.New("a change of endpoints changed iptables' rules")
	}
	return s.proveLoad(ctx, l)
}

// goAndCome takes a pod away as Kubernetes does, and brings it back.
func (s *show) goAndCome(ctx context.Context, l *load) error {
	b := s.pods[1]
	m := newMeter(s.page, l)
	if err := m.run(ctx, "all three serve", phase); err != nil {
		return err
	}
	s.shop.without(b)
	if _, err := s.portald.apply(ctx, s.writeManifests); err != nil {
		return err
	}
	if err := m.run(ctx, "cart-b is no longer listed", phase/5); err != nil {
		return err
	}
	if err := b.stop(); err != nil {
		return err
	}
	gone := l.count("cart-b")
	if err := m.run(ctx, "cart-b is gone", phase); err != nil {
		return err
	}
	if err := b.start(); err != nil {
		return err
	}
	s.shop.with(b)
	if _, err := s.portald.apply(ctx, s.writeManifests); err != nil {
		return err
	}
	if err := m.run(ctx, "cart-b is back", phase); err != nil {
		return err
	}
	if l.count("cart-b") == gone {
		return errors.New("cart-b came back and served nothing")
	}
	return nil
}

// proveLoad holds what the clients saw against the records.
func (s *show) proveLoad(ctx context.Context, l *load) error {
	if err := l.failure(); err != nil {
		return err
	}
	total := l.total()
	records, err := s.showRecords(ctx, total, 1, nil)
	if err != nil {
		return err
	}
	if ok := containing(records, "  ok  fin by client"); ok != total {
		return fmt.Errorf("%d of %d records say ok", ok, total)
	}
	s.check("%s connections, 0 failed, %s records, all ok; no iptables rule was touched", thousands(total),
		thousands(len(records)))
	return nil
}
