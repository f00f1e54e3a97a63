//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// chain is one of nftables by which a pod fails, without touching its servers.
type chain struct {
	kind  string
	rules []string
}

var chains = map[fault]chain{
	blackHole: {"filter hook prerouting priority -300", []string{`iifname "eth0" drop`}},
	refuses:   {"filter hook input priority 0", []string{syn + " reject with tcp reset"}},
	slow: {"filter hook input priority 0",
		[]string{syn + " limit rate 2/second burst 1 packets accept", syn + " drop"}},
	resets: {"nat hook prerouting priority -100", []string{fmt.Sprint(syn, " redirect to :", resetPort)}},
}

// syn matches the first packet of a connection from outside.
const syn = `iifname "eth0" tcp flags & (fin|syn|rst|ack) == syn`

// begin lets the pod fail.
func (p *pod) begin(ctx context.Context, f fault) error {
	switch f {
	case killed:
		return p.kill()
	case frozen:
		return p.signal(unix.SIGSTOP)
	}
	return p.nft(ctx, chains[f].text())
}

// text is the chain as nft reads it.
func (c chain) text() string {
	return fmt.Sprintf("table ip flaps {\n chain in {\n type %s;\n %s\n }\n}\n", c.kind, strings.Join(c.rules, "\n "))
}

// end lets it serve again. Servers that were killed take a moment.
func (p *pod) end(ctx context.Context, f fault) error {
	switch f {
	case killed:
		return p.start(ctx)
	case frozen:
		return p.signal(unix.SIGCONT)
	}
	return p.nft(ctx, "delete table ip flaps")
}
