//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/portald/portald/integration/topology"
)

// restorer is the host's command that loads a ruleset in one step.
type restorer struct {
	command []string
	from    string // package of the command
	rest    string // prefix of the line from which the input is for another command; none: all of it is for this one
	one     string // one rule in a separate chain, in the table of portald's rules
}

// restorers are the commands by portald's mode.
func restorers() map[string]restorer {
	return map[string]restorer{
		"iptables": {[]string{"iptables-nft-restore", "--noflush", "--wait"}, "Debian package iptables", "# ip6tables",
			"*nat\n:BESIDE - [0:0]\n-A BESIDE -s 192.0.2.1 -j RETURN\nCOMMIT\n"},
		"nftables": {[]string{"nft", "-f", "-"}, "Debian package nftables", "",
			"add chain ip portald beside\nadd rule ip portald beside ip saddr 192.0.2.1 return\n"},
	}
}

// restore measures the host's command with the output of portald render, on a node without rules.
func (b *bed) restore(ctx context.Context) (took time.Duration, err error) {
	rules, err := b.rendered(ctx)
	if err != nil {
		return 0, err
	}
	net, err := topology.New(ctx, topology.Options{Name: b.name + "-restored-"})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	return restorers()[b.mode].feed(ctx, net.Node, rules)
}

// besides measures the host's command with one more rule, on a node with portald's rules.
func (b *bed) besides(ctx context.Context) (float64, error) {
	var all []float64
	for range changes {
		by := restorers()[b.mode]
		took, err := by.feed(ctx, b.net.Node, by.one)
		if err != nil {
			return 0, err
		}
		all = append(all, milliseconds(took))
	}
	return median(all), nil
}

func (r restorer) feed(ctx context.Context, h *topology.Host, rules string) (time.Duration, error) {
	cmd := h.Command(ctx, r.command[0], r.command[1:]...)
	cmd.Stdin = strings.NewReader(rules)
	began := time.Now()
	if said, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", r.command[0], err, said)
	}
	return time.Since(began), nil
}

// rendered is the output of portald render for the mode's command.
func (b *bed) rendered(ctx context.Context) (string, error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, b.portald(), append([]string{"render"}, b.what()...)...)
	cmd.Stderr = &said
	rules, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("portald render: %w: %s", err, &said)
	}
	mine := string(rules)
	if rest := restorers()[b.mode].rest; rest != "" {
		mine, _, _ = strings.Cut(mine, "\n"+rest)
	}
	return mine + "\n", nil
}
