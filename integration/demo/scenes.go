//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
)

func scenes() []scene {
	return slices.Concat(balancing(), trouble(), watching(), looking(), switching(), otherWays(), restarting(), allNodes(),
		endings())
}

func (s *show) play(ctx context.Context) error {
	s.opening()
	all := scenes()
	for i, scene := range all {
		s.rest(ctx, sceneRest)
		s.headline(i+1, len(all), scene.title)
		s.say(scene.about)
		s.rest(ctx, sceneRest/2)
		if err := scene.play(ctx, s); err != nil {
			s.line("%s %s", s.ink.bad("✗"), "failed")
			return fmt.Errorf("scene %d, %s: %w", i+1, scene.title, err)
		}
	}
	return nil
}
