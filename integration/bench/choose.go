//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/portald/portald/integration/wine"
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

// missing returns an error that names what the chosen measurements need and this machine lacks.
func (s settings) missing() error {
	var lack []string
	need := func(command, in string) {
		if _, err := exec.LookPath(command); err != nil {
			lack = append(lack, fmt.Sprintf("%s (%s)", command, in))
		}
	}
	need("nsenter", "Debian package util-linux")
	need("taskset", "Debian package util-linux")
	need("iptables-restore", "Debian package iptables")
	for _, c := range s.competitors {
		if err := wine.Check(); c.windows && err != nil {
			lack = append(lack, err.Error())
		}
		if c.windows {
			need("go", "go.dev")
		} else if c.program == "portald" {
			need(cmp.Or(c.path, s.portald), "run make build")
		} else if c.program != "" {
			need(c.program, c.from)
		}
		if by, ok := restorers()[c.mode]; ok {
			need(by.command[0], by.from)
		}
		if c.file == "" {
			continue
		}
		if _, err := os.Stat(c.file); err != nil {
			lack = append(lack, fmt.Sprintf("%s (%s)", c.file, c.from))
		}
	}
	if len(lack) > 0 {
		return fmt.Errorf("missing: %s", strings.Join(lack, ", "))
	}
	return nil
}
