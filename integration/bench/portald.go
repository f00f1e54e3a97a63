//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"slices"
)

// portaldIn is portald in a mode.
func portaldIn(mode string) competitor {
	c := competitor{name: "portald", label: "portald", program: "portald", mode: mode, udp: mode == userspace,
		start: startPortald}
	if mode != userspace {
		c.name, c.label = c.name+"-"+mode, mode+" mode"
	}
	return c
}

// on is the same competitor with the given engine.
func (c competitor) on(engine string) competitor {
	c.name, c.label, c.engine = c.name+"-"+engine, c.label+", "+engine+" engine", engine
	return c
}

// withoutRecords is portald without a connection log, to tell what one costs.
func withoutRecords() competitor {
	c := portaldIn(userspace)
	c.name, c.label, c.unrecorded = c.name+"-unrecorded", c.label+", no records", true
	return c
}

// withKeeper is portald with portald keep beside it, to tell what that costs.
func withKeeper() competitor {
	c := portaldIn(userspace)
	c.name, c.label, c.kept = c.name+"-kept", c.label+", kept", true
	return c
}

// withRetries is portald with every setting of docs/retries.md that each connection takes part in, to tell what they
// cost while nothing fails.
func withRetries() competitor {
	c := portaldIn(userspace)
	c.name, c.label, c.retries = c.name+"-retries", c.label+", retries", true
	return c
}

// retrySettings are those, with limits that no client reaches.
func retrySettings() []string {
	return []string{"--retry-on", "reset-before-response", "--hedge-after", "50ms", "--wait-for-endpoint", "30s",
		"--max-age", "1h±20%", "--removed-endpoint", "close-when-idle", "--dead-peer-timeout", "1m",
		"--max-connections-per-client", "1000000", "--connection-rate", "1000000", "--connection-rate-per-client", "1000000"}
}

// recordingFlows is portald in a kernel mode that makes records of the connections that the kernel carried.
func recordingFlows(which string) competitor {
	c := portaldIn("nftables")
	c.name, c.label, c.flowRecords = c.name+"-records-"+which, c.label+", records "+which, which
	return c
}

// at is another portald binary in the same mode.
func (c competitor) at(path string) competitor {
	c.name, c.label, c.path = c.name+"-before", c.label+", before", path
	return c
}

// with is the same competitor with additional Services, at random addresses of the service range.
func (c competitor) with(services int) competitor {
	c.name, c.label = fmt.Sprint(c.name, "-", services), fmt.Sprintf("%s, %d Services", c.label, services)
	c.services = services
	return c
}

func startPortald(b *bed) ([]string, error) {
	if err := b.manifests(b.services); err != nil {
		return nil, err
	}
	args := slices.Concat(asDeployed(), b.beside(), []string{b.portald()}, b.what())
	if b.engine == "" {
		return args, nil
	}
	config := "apiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\nengine: " + b.engine + "\n"
	file, err := b.file("config.yaml", config)
	return append(args, "--config", file), err
}

// beside starts a keeper, if there is to be one, which ends with the program whose command line follows.
func (b *bed) beside() []string {
	if !b.kept {
		return nil
	}
	const both = `setpriv --pdeathsig KILL "$0" keep --socket "$1" & shift; sleep 0.5; exec "$@"`
	return []string{"sh", "-c", both, b.portald(), filepath.Join(b.dir, "admin-keep.sock")}
}

// asDeployed starts a program with exactly the capabilities that deploy/ grants. Without CAP_SYS_RESOURCE, for example,
// the kernel limits the total pipe memory of all processes of root.
func asDeployed() []string {
	return []string{"setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all,+net_admin", "--no-new-privs"}
}

// what returns portald's flags.
func (b *bed) what() []string {
	args := []string{"--hostname-override", thisNode, "--healthz-bind-address", healthAt,
		"--metrics-bind-address", metricsAt, "--manifests", b.manifest(""),
		"--admin-socket", b.adminSocket()}
	if b.mode == userspace { // a measurement of a kernel mode needs the rules that stay
		args = append(args, "--on-exit", "remove")
	}
	if b.retries {
		args = append(args, retrySettings()...)
	}
	if b.unrecorded {
		return args
	}
	if b.mode == userspace {
		return append(args, "--connection-log", b.connectionLog(), "--connection-log-format", "json")
	}
	if b.mode == "iptables" {
		args = append(args, "--iptables-variant", "nft")
	}
	if b.flowRecords != "" {
		args = append(args, "--kernel-records", b.flowRecords)
	}
	return append(args, "--proxy-mode", b.mode, "--profiling")
}
