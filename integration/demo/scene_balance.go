//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
)

func balancing() []scene {
	return []scene{{
		title: "Round robin",
		about: "The client opens nine connections to the ClusterIP of three pods. Round robin gives each pod exactly " +
			"three; the choice is not random.",
		play: roundRobin,
	}, {
		title: "ClientIP affinity, switched on and off at run time",
		about: "With sessionAffinity: ClientIP, all connections of a client go to one pod. The node is another client " +
			"and may get another pod. Without affinity, round robin continues.",
		play: affinity,
	}}
}

func roundRobin(ctx context.Context, s *show) error {
	served, err := s.askAll(ctx, slices.Repeat([]request{s.client("tcp", cartIP, httpPort)}, 9)...)
	if err != nil {
		return err
	}
	if err := expect(served, counts{"cart-a": 3, "cart-b": 3, "cart-c": 3}); err != nil {
		return err
	}
	records, err := s.showRecords(ctx, 9, 3, nil)
	if err != nil {
		return err
	}
	if ok := containing(records, "  ok  fin by client"); ok != 9 {
		return fmt.Errorf("%d of 9 records say ok", ok)
	}
	s.check("9 connections: %v; 9 records, all ok", served)
	return nil
}

func affinity(ctx context.Context, s *show) error {
	if err := s.edit(ctx, "sessionAffinity: ClientIP", func(m *shop) { m.Affinity = "ClientIP" }); err != nil {
		return err
	}
	mine, err := s.sticks(ctx, s.client("tcp", cartIP, httpPort), 5)
	if err != nil {
		return err
	}
	nodes, err := s.sticks(ctx, s.node("tcp", cartIP, httpPort), 3)
	if err != nil {
		return err
	}
	records, err := s.showRecords(ctx, 8, 2, nil)
	if err != nil {
		return err
	}
	if n := containing(records, "affinity hit"); n != 6 {
		return fmt.Errorf("%d records contain \"affinity hit\", want 6", n)
	}
	if err := s.edit(ctx, "sessionAffinity: None", func(m *shop) { m.Affinity = "None" }); err != nil {
		return err
	}
	after, err := s.askAll(ctx, slices.Repeat([]request{s.client("tcp", cartIP, httpPort)}, 3)...)
	if err != nil {
		return err
	}
	if err := expect(after, counts{"cart-a": 1, "cart-b": 1, "cart-c": 1}); err != nil {
		return fmt.Errorf("without affinity: %w", err)
	}
	if _, err := s.records.take(ctx, 3); err != nil {
		return err
	}
	s.check("client: 5 of 5 on %s; node: 3 of 3 on %s; without affinity: %v", mine, nodes, after)
	return nil
}

// sticks sends n requests and returns the pod that answered all of them.
func (s *show) sticks(ctx context.Context, q request, n int) (string, error) {
	served, err := s.askAll(ctx, slices.Repeat([]request{q}, n)...)
	if err != nil {
		return "", err
	}
	for name := range served {
		if served[name] == n {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s was answered by %v, want one pod", q.from.Name, served)
}
