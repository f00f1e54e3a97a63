//go:build linux

package main

import (
	"slices"
	"testing"
	"time"
)

func TestScheduleIsOfItsSeed(t *testing.T) {
	of := func(seed uint64) []event { return schedule(seed, 5, usualFaults, 30*time.Second) }
	if !slices.Equal(of(7), of(7)) {
		t.Error("the same seed gave two schedules")
	}
	if slices.Equal(of(7), of(8)) {
		t.Error("two seeds gave the same schedule")
	}
}

// At each moment an endpoint lives, and has had time to settle; an endpoint has one fault at a time.
func TestOneEndpointLives(t *testing.T) {
	const span = time.Minute
	alone := false
	for seed := range uint64(200) {
		endpoints := 3 + int(seed%4)
		events := schedule(seed, endpoints, allFaults, span)
		if len(events) < 10 {
			t.Fatalf("seed %d: only %d events", seed, len(events))
		}
		if !slices.IsSortedFunc(events, func(a, b event) int { return int(a.At - b.At) }) {
			t.Fatalf("seed %d: not in order", seed)
		}
		for i, e := range events {
			if i < len(allFaults) && slices.ContainsFunc(events[:i], func(o event) bool { return o.Fault == e.Fault }) {
				t.Fatalf("seed %d: %s comes twice before others come once", seed, e.Fault)
			}
			if e.For < shortest || e.For > longest || e.end() > span-after {
				t.Fatalf("seed %d: %s", seed, e)
			}
			bad := badAt(t, events, e.At)
			if bad >= endpoints {
				t.Fatalf("seed %d: after %s all %d endpoints are bad", seed, e.At, endpoints)
			}
			alone = alone || bad == endpoints-1
		}
	}
	if !alone {
		t.Error("no schedule leaves one endpoint alone")
	}
}

// badAt counts endpoints that fail or settle.
func badAt(t *testing.T, events []event, at time.Duration) int {
	bad := map[int]bool{}
	for _, e := range events {
		if e.At <= at && at < e.end()+settle {
			if bad[e.Endpoint] {
				t.Fatalf("endpoint %d has two faults at %s", e.Endpoint, at)
			}
			bad[e.Endpoint] = true
		}
	}
	return len(bad)
}

func TestParseFaults(t *testing.T) {
	if got, err := parseFaults("kill,freeze"); err != nil || !slices.Equal(got, []fault{killed, frozen}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseFaults("kill,none"); err == nil {
		t.Error("an unknown fault was taken")
	}
}
