//go:build linux

package main

import (
	"context"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"time"
)

// client is a real client, and the server that its Service leads to.
type client struct {
	name    string
	service netip.AddrPort // the port is that of the pods too
	needs   []string       // programs
	server  func(p *pod) []string
	ready   func(c net.Conn) error // nil: a server that accepts is ready
	// connect returns what does one operation after the other, or some at the same time.
	connect func(to netip.AddrPort) (operation, error)
}

// operation runs once, until ctx is done at the latest. An empty kind: it went well.
type operation func(ctx context.Context) (k kind, said string)

// pgbench is the name of a client and its program.
const pgbench = "pgbench"

func (c client) title() string { return c.name }

func allClients() []client {
	return []client{
		{
			name: "redis-benchmark", service: service(1, 6379), needs: []string{"redis-server", "redis-benchmark"},
			server: redisServer,
			connect: func(to netip.AddrPort) (operation, error) {
				return command{path: "redis-benchmark", spins: true, args: []string{"-h", to.Addr().String(), "-p", port(to),
					"-c", "1", "-n", "1", "-k", "0", "-t", "ping_mbulk", "-q"}}.run, nil
			},
		},
		{
			name: pgbench, service: service(2, 5432), needs: []string{"postgres", "initdb", pgbench, "setpriv"},
			server: postgresServer, ready: postgresReady,
			connect: func(to netip.AddrPort) (operation, error) {
				return command{path: find(pgbench), in: "SELECT 1;\n", args: []string{"-C", "-n", "-c", "1", "-t", "1", "-f", "-",
					"-h", to.Addr().String(), "-p", port(to), "-U", postgresUser, "postgres"}}.run, nil
			},
		},
		{
			name: "curl", service: service(3, 8080), needs: []string{"curl"}, server: ownServer("http", 8080),
			connect: func(to netip.AddrPort) (operation, error) {
				// It says why a connect failed only where it says everything.
				return command{path: "curl", args: []string{"-s", "-v", "--fail", "-o", "/dev/null",
					"http://" + to.String() + "/"}}.run, nil
			},
		},
		{
			name: "grpc", service: service(4, 50051), server: ownServer("grpc", 50051), connect: connectGRPC,
		},
	}
}

// service is the address of a client's Service.
func service(number byte, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 7, number}), port)
}

// find returns the path of a program; empty: there is none. Debian keeps those of PostgreSQL out of PATH, or has
// scripts there that take longer than they do.
func find(program string) string {
	paths, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err == nil && len(paths) > 0 {
		return paths[len(paths)-1]
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return ""
	}
	return path
}

// lacks returns what the client needs and is not there.
func (c client) lacks() string {
	for _, p := range c.needs {
		if find(p) == "" {
			return p
		}
	}
	if c.name == pgbench && !hasUser(postgresUID) {
		return "user but root, whom PostgreSQL refuses: run as root"
	}
	return ""
}

// load is how often a client does an operation.
type load struct {
	rate    float64 // operations per second
	timeout time.Duration
}
