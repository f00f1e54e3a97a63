//go:build linux

package main

import (
	"slices"
	"strings"

	"github.com/portald/portald/integration/load"
)

// workloads lists all, in the order of the report.
func workloads() []workload {
	return slices.Concat(trafficWorkloads(), []workload{idleWorkload(), tailWorkload()}, controlWorkloads(),
		[]workload{changingWorkload(100), memoryWorkload(10_000, 100)}, engineWorkloads(), kernelWorkloads(),
		[]workload{flowsWorkload()})
}

func trafficWorkloads() []workload {
	return []workload{
		bulkWorkload("bulk1", "bulk, 1 stream", 1),
		bulkWorkload("bulk8", "bulk, 8 streams", 8),
		downloadsWorkload("down1", "download, 1 stream", 1, false),
		downloadsWorkload("down8", "download, 8 streams", 8, false),
		downloadsWorkload("both1", "bulk in both directions, 1 stream", 1, true),
		besideWorkload(32),
		besideWorkload(128),
		exchangeWorkload("rr1", "request/response, 1 connection", withRetried,
			load.RR{Proto: "tcp", Conns: 1}),
		exchangeWorkload("rr64", "request/response, 64 connections", everyone,
			load.RR{Proto: "tcp", Conns: 64}),
		churnWorkload("crr", "connect, request, response, close; 16 at once", withRetried,
			load.Churn{Proto: "tcp", Conns: 16}),
		exchangeWorkload("udprr", "UDP request/response, 64 flows", withUDP,
			load.RR{Proto: "udp", Conns: 64}),
		churnWorkload("udpnew", "UDP, a new flow for each exchange; 16 at once", withUDP,
			load.Churn{Proto: "udp", Conns: 16, From: sources()}),
		datagramsWorkload("udpgso", "UDP in bulk, segmented by the sender's kernel (GSO)", load.Datagrams{GSO: true}),
		datagramsWorkload("udpbulk", "UDP in bulk, 150,000 sent a second", load.Datagrams{Rate: 150_000}),
	}
}

// kernelWorkloads measure the cost of the number of Services in kernel modes.
func kernelWorkloads() []workload {
	return []workload{
		kernelWorkload(1000, 3), kernelWorkload(5000, 1).left(), kernelWorkload(10_000, 2),
		kernelWorkload(30_000, 1).left(),
		connectWorkload(1), connectWorkload(1000).left(), connectWorkload(10_000),
	}
}

func controlWorkloads() []workload {
	return []workload{manyWorkload(10_000), syncWorkload(1000), syncWorkload(10_000)}
}

// engineWorkloads are those of the traffic that compare portald's engines: epoll, goroutines, and these on Windows; and
// single exchanges on Linux with client, proxy and server at the same processors for both. Wine has no part in
// exchanges beside uploads, of which one may take as long as the measurement, nor in a flood of UDP flows, of which
// Wine 8.0 loses wakeups, nor in datagrams in bulk, of which hardly any arrives.
func engineWorkloads() []workload {
	all := append(trafficWorkloads(), idleWorkload())
	rr1 := slices.IndexFunc(all, func(w workload) bool { return w.name == "rr1" })
	for i, at := range placements() {
		all = slices.Insert(all, rr1+1+i, placedWorkload(at, load.RR{Proto: "tcp", Conns: 1}))
	}
	for i, w := range all {
		onLinux := slices.Contains([]string{"udpnew", "udpgso", "udpbulk"}, w.name) || w.placed ||
			strings.HasPrefix(w.name, "beside")
		all[i].name, all[i].engines, all[i].long = "engine-"+w.name, true, true
		all[i].among = func(c competitor) bool { return engine(c) && !(c.windows && onLinux) }
	}
	return all
}
