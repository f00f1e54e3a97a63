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
		title: "It leaves as it came",
		about: "portald is asked to end. Its rules go, and nobody else's.",
		play:  leave,
	}}
}

func leave(ctx context.Context, s *show) error {
	before, err := s.rules(ctx)
	if err != nil {
		return err
	}
	if err := s.portald.stop(); err != nil {
		return err
	}
	after, err := s.rules(ctx)
	if err != nil {
		return err
	}
	ours := len(before) - len(after)
	s.line("%s iptables-save   %d rules while portald ran", s.ink.dim("node$"), len(before))
	s.line("%s kill -TERM portald   exit code 0", s.ink.dim("node$"))
	s.line("%s iptables-save", s.ink.dim("node$"))
	for _, r := range after {
		s.line("  %s", r)
	}
	if !slices.Equal(after, s.found) || ours < 1 {
		return fmt.Errorf("the node's rules are\n%s\nwant\n%s", strings.Join(after, "\n"), strings.Join(s.found, "\n"))
	}
	s.check("%d rules of portald are gone; the node's rules are what they were", ours)
	return nil
}
