//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// PostgreSQL refuses to run as root.
const (
	postgresUser = "flaps"
	postgresUID  = 65534
)

// serve runs a server of our own: the program's arguments are its name and port.
func serve(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("serve: want http or grpc, and a port")
	}
	l, err := net.Listen("tcp", ":"+args[1])
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	if args[0] == "grpc" {
		s := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(s, health.NewServer())
		return s.Serve(l)
	}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "here\n") // the client tells
	}))
}

// ownServer is the command line of serve.
func ownServer(name string, port int) func(p *pod) []string {
	return func(p *pod) []string { return []string{p.self, "serve", name, strconv.Itoa(port)} }
}

func redisServer(p *pod) []string {
	return []string{"redis-server", "--save", "", "--protected-mode", "no", "--bind", "0.0.0.0", "--dir", p.dir}
}

// postgresServer has settings for a server whose data nobody needs.
func postgresServer(p *pod) []string {
	data := filepath.Join(p.dir, "postgres")
	_ = os.Remove(filepath.Join(data, "postmaster.pid")) // of a process that was killed: its number may be another's now
	line := []string{"setpriv", fmt.Sprint("--reuid=", postgresUID), fmt.Sprint("--regid=", postgresUID), "--clear-groups",
		find("postgres"), "-D", data, "-p", "5432"}
	for _, setting := range []string{
		"listen_addresses=*", "unix_socket_directories=", "max_connections=300", "shared_buffers=8MB", "fsync=off",
		"full_page_writes=off", "synchronous_commit=off", "autovacuum=off", "wal_level=minimal", "max_wal_senders=0",
		"authentication_timeout=10s",
	} {
		line = append(line, "-c", setting)
	}
	return line
}

// hasUser tells whether our user namespace has a user: one that is made without root has root alone.
func hasUser(uid int) bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	var first, outside, count int
	if err == nil {
		_, err = fmt.Sscan(string(text), &first, &outside, &count)
	}
	return err == nil && first <= uid && uid-first < count
}

// postgresReady begins a session: a server that starts accepts, and says that it is not ready.
func postgresReady(c net.Conn) error {
	const protocol = 3 << 16
	text := binary.BigEndian.AppendUint32(nil, protocol)
	text = append(text, "user\x00"+postgresUser+"\x00database\x00postgres\x00\x00"...)
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text)+4)), text...)); err != nil {
		return err
	}
	answer := make([]byte, 1)
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	if answer[0] != 'R' { // a request to authenticate, or that it is done
		return errors.New("the server does not let us in yet")
	}
	return nil
}

// initPostgres makes a data folder, which each pod gets a copy of.
func initPostgres(ctx context.Context, folder string) error {
	if err := errors.Join(os.Mkdir(folder, 0o700), os.Chown(folder, postgresUID, postgresUID)); err != nil {
		return err
	}
	id := strconv.Itoa(postgresUID)
	out, err := exec.CommandContext(ctx, "setpriv", "--reuid="+id, "--regid="+id, "--clear-groups", find("initdb"),
		"--no-sync", "--auth=trust", "--wal-segsize=1", "--username="+postgresUser, "-D", folder).CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	hba, err := os.OpenFile(filepath.Join(folder, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = hba.WriteString("host all all 0.0.0.0/0 trust\n")
	return errors.Join(err, hba.Close())
}

// copyPostgres copies a data folder with its owner.
func copyPostgres(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy %s: %w\n%s", from, err, out)
	}
	return nil
}
