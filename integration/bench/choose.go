//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
)

// named is a workload or a competitor.
type named interface{ title() string }

func names[T named](all []T) string {
	var out []string
	for _, n := range all {
		out = append(out, n.title())
	}
	return strings.Join(out, ",")
}

// choose returns the named ones in the order of all; without names it returns all.
func choose[T named](all []T, list string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	want := strings.Split(list, ",")
	for _, w := range want {
		if !slices.ContainsFunc(all, func(n T) bool { return n.title() == w }) {
			return nil, fmt.Errorf("no %q among %s", w, names(all))
		}
	}
	return slices.DeleteFunc(all, func(n T) bool { return !slices.Contains(want, n.title()) }), nil
}
