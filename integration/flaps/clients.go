//go:build linux

package main

import (
	"context"
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
			server: postgresServer,
			connect: func(to netip.AddrPort) (operation, error) {
				return command{path: find(pgbench), in: "SELECT 1;\n", args: []string{"-C", "-n", "-c", "1", "-t", "1", "-f", "-",
					"-h", to.Addr().String(), "-p", port(to), "-U", postgresUser, "postgres"}}.run, nil
			},
		},
		{
			name: "curl", service: service(3, 8080), needs: []string{"curl"}, server: ownServer("http", 8080),
			connect: func(to netip.AddrPort) (operation, error) {
				return command{path: "curl", args: []string{"-sS", "--fail", "-o", "/dev/null", "http://" + to.String() + "/"}}.run, nil
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

// find returns the path of a program, which Debian keeps out of PATH for PostgreSQL; empty: there is none.
func find(program string) string {
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// lacks returns a program that the client needs and that is not there.
func (c client) lacks() string {
	for _, p := range c.needs {
		if find(p) == "" {
			return p
		}
	}
	return ""
}

// load is how often a client does an operation.
type load struct {
	rate    float64 // operations per second
	timeout time.Duration
}
