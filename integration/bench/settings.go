//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/portald/portald/integration/wine"
)

// settings are the parsed flags.
type settings struct {
	plan
	portald string // path of the program
	out     string // path of the report, without .md and .json
	partial bool   // not everything is measured
	engines bool   // only portald's engines are, and the rest of the report stays

	disturbed bool // a report is written though the machine was not quiet
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
