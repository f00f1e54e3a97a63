//go:build linux

package main

import (
	"fmt"
	"strings"
)

// opening draws the network and prints portald's command line and Services.
func (s *show) opening() {
	fmt.Fprintln(s.out)
	s.line("%s", s.ink.bold("portald: a Kubernetes service proxy with a record of every connection"))
	fmt.Fprintln(s.out)
	for _, row := range s.picture() {
		s.line("%s", row)
	}
	fmt.Fprintln(s.out)
	s.line("%s %s", s.ink.dim("node$"), s.daemon.shown())
	s.line("%s", s.ink.dim("manifests/shop.yaml: Service cart ("+cartIP+", TCP "+httpPort+", UDP "+dnsPort+
		", NodePorts "+httpNodePort+" and "+dnsNodePort+") and its EndpointSlice"))
}

// picture draws the topology: each box is a network namespace, each line a veth pair.
func (s *show) picture() []string {
	p, at := s.pods, func(i int) string { return fmt.Sprintf("%-14s", s.pods[i].Host.IPv4) }
	client, node := s.net.Client(0).IPv4, s.net.Node.IPv4
	return []string{
		`                                                           ┌` + edge(p[0].Name, 16) + `┐`,
		`                                                      ┌────┤ ` + at(0) + ` │`,
		` ┌` + edge("client", 16) + `┐       ┌` + edge("node", 24) + `┐  │    └────────────────┘`,
		` │                │       │                        ├──┘    ┌` + edge(p[1].Name, 16) + `┐`,
		fmt.Sprintf(` │ %-14s ├───────┤ iptables ─▶ %s    ├───────┤ %s │`, client, s.ink.bold("portald"), at(1)),
		` │                │       │                        ├──┐    └────────────────┘`,
		` └────────────────┘       └` + edge(node.String(), 24) + `┘  │    ┌` + edge(p[2].Name, 16) + `┐`,
		`                                                      └────┤ ` + at(2) + ` │`,
		`                                                           └────────────────┘`,
	}
}

// edge is the edge of a box, with a name in it.
func edge(name string, width int) string {
	return "─ " + name + " " + strings.Repeat("─", width-3-len(name))
}
