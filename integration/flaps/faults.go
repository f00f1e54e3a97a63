//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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

// begin lets the pod fail. Servers that are killed start again at once, and the pod refuses until the end: what a
// server says while it starts is not a fault here.
func (p *pod) begin(ctx context.Context, f fault) error {
	switch f {
	case killed:
		return errors.Join(p.kill(), p.nft(ctx, chains[refuses].text()), p.start(ctx))
	case frozen:
		return p.freeze()
	}
	return p.nft(ctx, chains[f].text())
}

// text is the chain as nft reads it.
func (c chain) text() string {
	return fmt.Sprintf("table ip flaps {\n chain in {\n type %s;\n %s\n }\n}\n", c.kind, strings.Join(c.rules, "\n "))
}

// end lets it serve again, and returns when it does; late tells what does not within this time.
func (p *pod) end(ctx context.Context, f fault, within time.Duration) (late, err error) {
	if f == frozen {
		err = p.signal(unix.SIGCONT)
		return p.serves(ctx, within), err
	}
	late = p.serves(ctx, within) // by rules alone nobody is kept from the inside
	return late, p.nft(ctx, "delete table ip flaps")
}
