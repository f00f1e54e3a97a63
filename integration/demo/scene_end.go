//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

func endings() []scene {
	return []scene{{
		title: "Shutdown removes all rules of portald",
		about: "portald gets Ctrl-C. It removes its own iptables rules and no others.",
		play:  leave,
	}}
}

func leave(ctx context.Context, s *show) error {
	before, err := s.rules(ctx)
	if err != nil {
		return err
	}
	if err := s.daemon.interrupt(); err != nil {
		return err
	}
	after, err := s.rules(ctx)
	if err != nil {
		return err
	}
	ours := len(before) - len(after)
	s.line("%s iptables-save   %d rules while portald ran", s.ink.dim("node$"), len(before))
	s.line("%s kill -INT portald   exit code 0", s.ink.dim("node$"))
	s.line("%s iptables-save", s.ink.dim("node$"))
	for _, r := range after {
		s.line("  %s", r)
	}
	if !slices.Equal(after, s.rulesBefore) || ours < 1 {
		return fmt.Errorf("the node's rules are\n%s\nwant\n%s", strings.Join(after, "\n"), strings.Join(s.rulesBefore, "\n"))
	}
	s.check("%d rules of portald are removed; the node has the same rules as before portald's start", ours)
	return nil
}
