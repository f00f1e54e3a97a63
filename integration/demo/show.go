//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/portald/portald/integration/topology"
)

// show is the stage and the page that it is printed on.
type show struct {
	*stage
	*page
}

// scene is one claim about portald and its check.
type scene struct {
	title string
	about string // printed before the scene
	play  func(context.Context, *show) error
}

// Pauses for the reader between scenes and between lines.
const (
	sceneRest = 600 * time.Millisecond
	lineRest  = 60 * time.Millisecond
)

// request says which host sends a request, and to which destination.
type request struct {
	from             *topology.Host
	network, address string
}

func (s *show) client(network, host, port string) request {
	return request{s.net.Client(0), network, net.JoinHostPort(host, port)}
}

func (s *show) node(network, host, port string) request {
	return request{s.net.Node, network, net.JoinHostPort(host, port)}
}

// counts is the number of answers of each pod.
type counts map[string]int

// String lists the pods by name: cart-a 3, cart-b 3.
func (c counts) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, c[name]))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// askAll sends requests one after the other, prints each answer, and counts the answers of each pod.
func (s *show) askAll(ctx context.Context, requests ...request) (counts, error) {
	served := counts{}
	for _, q := range requests {
		began := time.Now()
		name, err := ask(ctx, q.from.Dial, q.network, q.address)
		if err != nil {
			return nil, fmt.Errorf("ask %s %s: %w", q.network, q.address, err)
		}
		s.printAnswer(q, s.ink.pod(name, greeting+name), time.Since(began))
		served[name]++
		s.rest(ctx, lineRest)
	}
	return served, nil
}

// printAnswer prints one request and its outcome.
func (s *show) printAnswer(q request, answer string, took time.Duration) {
	s.line("%-8s %s %-20s  %s  %s", strings.TrimSuffix(q.from.Name, "0"), q.network, q.address, answer,
		s.ink.dim(fmt.Sprintf("%.1f ms", took.Seconds()*1000)))
}

// expect compares the numbers of answers.
func expect(got, want counts) error {
	if !maps.Equal(got, want) {
		return fmt.Errorf("answers came from %v, want %v", got, want)
	}
	return nil
}

// showRecords waits for the next n records and prints some of them, those with the highest interest first.
func (s *show) showRecords(ctx context.Context, n, shown int, interest func(record string) int) ([]string, error) {
	all, err := s.records.take(ctx, n)
	if err != nil {
		return nil, err
	}
	chosen := slices.Clone(all)
	if interest != nil {
		slices.SortStableFunc(chosen, func(a, b string) int { return interest(b) - interest(a) })
	}
	s.line("")
	s.line("%s", s.ink.dim("records of portald (one line each, wrapped here):"))
	for _, r := range chosen[:shown] {
		s.record(r)
		s.rest(ctx, lineRest)
	}
	if shown < n {
		s.line("%s", s.ink.dim(fmt.Sprintf(" │ … and %d more", n-shown)))
	}
	return all, nil
}

// containing counts the records that contain a text.
func containing(records []string, text string) int {
	n := 0
	for _, r := range records {
		if strings.Contains(r, text) {
			n++
		}
	}
	return n
}

// atOnce is shorter than the initial retransmission timeout of a SYN, one second: tcp(7).
const atOnce = 900 * time.Millisecond

// refused sends a request that must be refused at once, and prints the refusal.
func (s *show) refused(ctx context.Context, q request) error {
	began := time.Now()
	name, err := ask(ctx, q.from.Dial, q.network, q.address)
	if err == nil {
		return fmt.Errorf("%s %s was answered by %s, want a refusal", q.network, q.address, name)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s %s: %w, want a refusal", q.network, q.address, err)
	}
	took := time.Since(began)
	if took > atOnce {
		return fmt.Errorf("%s %s was refused after %v", q.network, q.address, took)
	}
	s.printAnswer(q, s.ink.warn("connection refused"), took)
	s.rest(ctx, lineRest)
	return nil
}

// edit changes the manifests, waits until portald has applied the change, and prints it.
func (s *show) edit(ctx context.Context, what string, change func(*shop)) error {
	change(&s.shop)
	took, err := s.daemon.apply(ctx, s.writeManifests)
	if err != nil {
		return err
	}
	s.line("%s %s  %s", s.ink.bold("shop.yaml"), what,
		s.ink.dim(fmt.Sprintf("applied within %d ms", took.Milliseconds())))
	s.rest(ctx, lineRest)
	return nil
}
