//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
	proxyrecords "github.com/portald/portald/proxy/connlog"
)

func restarting() []scene {
	return []scene{{
		title: "A download goes on through an upgrade and a kill -9",
		about: "A client downloads a file through the ClusterIP, slowly. A second portald starts and takes over from the " +
			"first one, as in an upgrade. It is killed, and a third one goes on with what portald keep has held meanwhile.",
		play: restart,
	}}
}

// keptAfter is the age from which a keeper holds a connection, with a margin for a busy machine.
const keptAfter = 2500 * time.Millisecond

func restart(ctx context.Context, s *show) error {
	before, err := s.rules(ctx)
	if err != nil {
		return err
	}
	if err := s.keep(ctx); err != nil {
		return err
	}
	s.line("%s   sha256sum file   %s", s.ink.dim("pods$"), fileSum())
	d, err := startDownload(ctx, s.net.Client(0).Dial, net.JoinHostPort(cartIP, httpPort))
	if err != nil {
		return fmt.Errorf("download: %w", err)
	}
	defer d.close()
	began := time.Now()
	if err := s.watch(ctx, d, "first portald", time.Second); err != nil {
		return err
	}
	first, err := s.carried(ctx, true)
	if err != nil {
		return err
	}
	if err := s.upgrade(ctx); err != nil {
		return err
	}
	if err := s.watch(ctx, d, "second portald", keptAfter); err != nil {
		return err
	}
	second, err := s.carried(ctx, false)
	if err != nil {
		return err
	}
	if err := s.crash(ctx); err != nil {
		return err
	}
	if err := s.watch(ctx, d, "third portald", time.Second); err != nil {
		return err
	}
	third, err := s.carried(ctx, true)
	if err != nil {
		return err
	}
	for _, c := range []*adminsocket.Connection{second, third} {
		if c.ID != first.ID || !c.Start.Equal(first.Start) {
			return fmt.Errorf("the connection %d of %v is now %d of %v", first.ID, first.Start, c.ID, c.Start)
		}
	}
	s.line("%s", s.ink.dim("the client reads without a limit from now on"))
	lasted := time.Since(began)
	sum, err := d.finish()
	if err != nil {
		return err
	}
	s.line("%s sha256sum file   %s", s.ink.dim("client$"), sum)
	if err := s.oneRecord(ctx, first, lasted); err != nil {
		return err
	}
	after, err := s.rules(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(before, after) {
		return errors.New("a take-over changed iptables rules")
	}
	s.check("%s bytes with the sha256 of the file; three processes carried one connection, with one id (%d) and one "+
		"record; no iptables rule was written", thousands(fileSize), first.ID)
	return nil
}

// keep starts a keeper, which the next portald finds.
func (s *show) keep(ctx context.Context) (err error) {
	s.line("%s portald keep &", s.ink.dim("node$"))
	s.keeper, err = startProcess(ctx, s.net.Node, filepath.Join(s.dir, "keep.log"), "portald keep", s.daemon.program,
		"keep")
	if err != nil {
		return err
	}
	_, err = s.keeper.said(ctx, " keeps at ")
	return err
}

// upgrade starts a portald while another one runs, and waits until that has handed over to it and ended.
func (s *show) upgrade(ctx context.Context) error {
	old := s.daemon
	if err := s.startNext(ctx); err != nil {
		return err
	}
	if err := s.quote(ctx, s.daemon.process, "second", rulesStand, "Took over from portald "); err != nil {
		return err
	}
	if err := s.quote(ctx, old.process, "first", " serves this node now: 0 connections are left here"); err != nil {
		return err
	}
	if err := old.exit(); err != nil {
		return fmt.Errorf("after its hand-over: %w", err)
	}
	if _, err := s.daemon.said(ctx, "Keeper connected"); err != nil {
		return err
	}
	return s.daemon.healthy(ctx)
}

// crash kills the portald that runs, and starts the next.
func (s *show) crash(ctx context.Context) error {
	s.line("%s kill -9 %d", s.ink.dim("node$"), s.daemon.pid())
	if err := s.daemon.kill(); err != nil {
		return err
	}
	if err := s.quote(ctx, s.keeper, "keeper", "portald died: holding 1 connections and "); err != nil {
		return err
	}
	if err := s.startNext(ctx); err != nil {
		return err
	}
	err := s.quote(ctx, s.daemon.process, "third", rulesStand,
		"1 connections of the portald that died go on, 0 had ended, 0 are reset")
	if err != nil {
		return err
	}
	return s.daemon.healthy(ctx)
}

// rulesStand is the log line of a portald that writes no rules, because the present ones are right.
const rulesStand = "The predecessor's rules are up to date: writing none"

func (s *show) startNext(ctx context.Context) error {
	s.rest(ctx, sceneRest/2)
	d := s.daemon.next()
	s.line("%s %s &", s.ink.dim("node$"), d.shown())
	return s.start(ctx, d)
}

// quote waits for lines in the log of a process and prints them.
func (s *show) quote(ctx context.Context, p *process, who string, lines ...string) error {
	for _, text := range lines {
		line, err := p.said(ctx, text)
		if err != nil {
			return err
		}
		for i, part := range wrap(line, s.width-14) {
			if i > 0 {
				who = ""
			}
			s.line("%s%-6s  %s", s.ink.dim(" │ "), who, part)
		}
	}
	return nil
}

// carried returns the connection of the download, of which a part is still to come, and shows it.
func (s *show) carried(ctx context.Context, show bool) (*adminsocket.Connection, error) {
	args := []string{"conns", "--service", "shop/cart:http"}
	if show {
		lines, err := s.portald(ctx, args...)
		if err != nil {
			return nil, err
		}
		s.table(lines, "ID", "SERVICE", "CLIENT", "POD", "STATE", "AGE", "DOWN")
	}
	text, err := s.run(ctx, s.net.Node, s.daemon.program, append(args, "-o", "json")...)
	if err != nil {
		return nil, err
	}
	var all []*adminsocket.Connection
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("read the list of connections: %w", err)
	}
	if len(all) != 1 || all[0].BytesFromEndpoint >= fileSize {
		return nil, fmt.Errorf("portald lists %s, want the download alone, with a part to come", text)
	}
	return all[0], nil
}

// oneRecord shows the one record of the download, and checks that it is that of a connection that lasted so long.
func (s *show) oneRecord(ctx context.Context, of *adminsocket.Connection, lasted time.Duration) error {
	if _, err := s.showRecords(ctx, 1, 1, nil); err != nil {
		return err
	}
	text, err := s.run(ctx, s.net.Node, s.daemon.program, "tail", "--last", "1", "-o", "json")
	if err != nil {
		return err
	}
	var r proxyrecords.Line
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &r); err != nil {
		return fmt.Errorf("read the record: %w", err)
	}
	took := time.Duration(r.DurationMS * float64(time.Millisecond))
	if r.ID != of.ID || r.Outcome != "ok" || r.BytesFromEndpoint != fileSize || took < lasted {
		return fmt.Errorf("the record is %s, want id %d, %d bytes and more than %v", text, of.ID, fileSize, lasted)
	}
	return nil
}
