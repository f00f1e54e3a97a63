//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	var all []time.Duration
	for i := range 200 {
		all = append(all, time.Duration(200-i)*time.Millisecond)
	}
	if got, want := summarize(all), (latencies{200, 100, 198, 200}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := summarize([]time.Duration{1500 * time.Microsecond}), (latencies{1, 1.5, 1.5, 1.5}); got != want {
		t.Errorf("one: got %+v, want %+v", got, want)
	}
	if got := summarize(nil); got != (latencies{}) {
		t.Errorf("none: got %+v", got)
	}
}

func TestParseStat(t *testing.T) {
	const stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 5"
	if got, err := parseStat(stat); err != nil || got != 1270*time.Millisecond {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseStat("7 (x) S 1"); err == nil {
		t.Error("too short a line has a time")
	}
}

func TestTable(t *testing.T) {
	r := report{Lines: []line{
		{Proxy: "portald", Mode: "nftables", Services: 30000, Reached: 1.25, Quiet: latencies{50, 1.26, 12.4, 15},
			Busy:     latencies{9, 3, 1234.4, 2000},
			StartCPU: 2, BusyCPU: 0.25, IdleCPU: 0.0012, Memory: 80 << 10, MostMemory: 100 << 10,
			StartBytes: 9_900_000, BusyBytes: 1500, Refused: 11_001},
		{Proxy: "kube-proxy", Mode: "iptables", Services: 1000, NotWithin: 300, MostMemory: 1 << 10},
	}}
	for _, want := range []string{
		"| 30,000 | portald | nftables | 1.2 s | 1.3 / 12 ms | 3.0 / 1,234 ms | 2.0 s | 25 % | " +
			"0.12 % | 80 MB | 100 MB | 9.9 MB | 1.5 kB |",
		"portald nftables with 30,000 Services refuses the clients of 11,001 of them: it has no more proxy ports.",
		"| 1,000 | kube-proxy | iptables | > 300 s | – | – | – | – | – | – | 1 MB | – | – |",
	} {
		if !strings.Contains(r.table(), want+"\n") {
			t.Errorf("no line %q in\n%s", want, r.table())
		}
	}
}

func TestChoices(t *testing.T) {
	for text, ok := range map[string]bool{
		"1000": true, "1000,30000": true, "30000,1000": false, "1": false, "x": false, "100,200,300,400": false,
	} {
		if _, err := parseSizes(text); (err == nil) != ok {
			t.Errorf("-sizes %s: %v", text, err)
		}
	}
	if got, err := choose("kube-proxy-nftables"); err != nil || len(got) != 1 || got[0].mode != "nftables" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := choose("haproxy"); err == nil {
		t.Error("haproxy is chosen")
	}
}

// Endpoints of one Service differ from each other, and from those it has in the turn before.
func TestAddresses(t *testing.T) {
	s := &stock{endpoints: 10}
	for _, i := range []int{0, 1, 29_999} {
		before, after := s.addresses(i, 0), s.addresses(i, 1)
		seen := map[string]bool{}
		for e := range before {
			seen[before[e].String()] = true
			if before[e] == after[e] {
				t.Errorf("Service %d: endpoint %d stays %s", i, e, before[e])
			}
		}
		if len(seen) != 10 {
			t.Errorf("Service %d has %d endpoints", i, len(seen))
		}
	}
}
