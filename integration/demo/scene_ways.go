//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

func otherWays() []scene {
	return []scene{{
		title: "UDP",
		about: "Six clients send one datagram each. portald keeps a UDP session per client address and port: replies " +
			"come from the service address, and a session ends, with a record, after " + udpIdle + " without datagrams.",
		play: udp,
	}, {
		title: "NodePort",
		about: "Clients outside the cluster reach the Service at a port of the node. The node itself also reaches it " +
			"at localhost, through a listener; the sysctl route_localnet stays off.",
		play: nodePort,
	}, {
		title: "Connections without endpoint are refused at once",
		about: "The Service wishlist has no pods, and no annotation that lets its clients wait: they get \"connection " +
			"refused\" at once, not an accepted connection that closes. portald's proxy ports also refuse direct " +
			"connections.",
		play: refusals,
	}}
}

func udp(ctx context.Context, s *show) error {
	served, err := s.askAll(ctx, slices.Repeat([]request{s.client("udp", cartIP, dnsPort)}, 6)...)
	if err != nil {
		return err
	}
	if err := expect(served, counts{"cart-a": 2, "cart-b": 2, "cart-c": 2}); err != nil {
		return err
	}
	records, err := s.showRecords(ctx, 6, 1, nil)
	if err != nil {
		return err
	}
	if ok := containing(records, "  ok  timeout by proxy"); ok != 6 {
		return fmt.Errorf("%d of 6 records say ok", ok)
	}
	s.check("6 sessions: %v; 6 records, all ok", served)
	return nil
}

func nodePort(ctx context.Context, s *show) error {
	node := s.net.Node.IPv4.String()
	tcp, err := s.askAll(ctx, slices.Concat(
		slices.Repeat([]request{s.client("tcp", node, httpNodePort)}, 3),
		slices.Repeat([]request{s.node("tcp", "127.0.0.1", httpNodePort)}, 3))...)
	if err != nil {
		return err
	}
	if err := expect(tcp, counts{"cart-a": 2, "cart-b": 2, "cart-c": 2}); err != nil {
		return err
	}
	udp, err := s.askAll(ctx, slices.Repeat([]request{s.client("udp", node, dnsNodePort)}, 3)...)
	if err != nil {
		return err
	}
	if err := expect(udp, counts{"cart-a": 1, "cart-b": 1, "cart-c": 1}); err != nil {
		return err
	}
	records, err := s.showRecords(ctx, 9, 2, local)
	if err != nil {
		return err
	}
	if n := containing(records, "(NodePort)"); n != 9 {
		return fmt.Errorf("%d of 9 records say NodePort", n)
	}
	s.check("TCP: %v; UDP: %v; 9 records, all NodePort", tcp, udp)
	return nil
}

// local ranks records for display: connections to localhost first, then TCP, then UDP.
func local(record string) int {
	if strings.Contains(record, "→ 127.0.0.1:") {
		return 2
	}
	return strings.Count(record, " tcp ")
}

func refusals(ctx context.Context, s *show) error {
	port, err := s.proxyPort(ctx)
	if err != nil {
		return err
	}
	node := s.net.Node.IPv4.String()
	s.line("%s", s.ink.dim("a Service without pods:"))
	err = errors.Join(
		s.refused(ctx, s.client("tcp", wishlistIP, httpPort)),
		s.refused(ctx, s.client("udp", wishlistIP, dnsPort)),
		s.refused(ctx, s.node("tcp", wishlistIP, httpPort)))
	if err != nil {
		return err
	}
	s.line("%s", s.ink.dim("direct connection to the proxy port of cart:"))
	err = errors.Join(
		s.refused(ctx, s.client("tcp", node, port)),
		s.refused(ctx, s.client("udp", node, port)))
	if err != nil {
		return err
	}
	if _, err := s.records.take(ctx, 0); err != nil {
		return err
	}
	s.check("5 refusals, each at once; no records, because no connection was accepted")
	return nil
}

var redirect = regexp.MustCompile(`-d ` + regexp.QuoteMeta(cartIP) + `/32 -p tcp .*-j REDIRECT --to-ports (\d+)`)

// proxyPort returns the port to which the rules redirect connections to cart.
func (s *show) proxyPort(ctx context.Context) (string, error) {
	rules, err := s.rules(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range rules {
		if m := redirect.FindStringSubmatch(r); m != nil {
			return m[1], nil
		}
	}
	return "", errors.New("find the proxy port of cart: no REDIRECT rule")
}
