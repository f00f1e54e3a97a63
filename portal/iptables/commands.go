package iptables

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// commands run on the host.
type commands struct {
	command, restore, save string
	run                    func(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error)
	maxSize                int    // of a script, in lines, that the kernel takes; 0 = no limit known
	nft                    bool   // they are the nft variant
	plain                  bool   // their MASQUERADE has no --random-fully
	wroteOne               func() // is called after each transaction; nil: not
}

// lockWait is how long a command waits for others that hold /run/xtables.lock, in seconds. The nft variant has no lock.
const lockWait = "30"

// lockedError is in what a command says that did not get the lock in that time.
const lockedError = "xtables lock"

// dump returns the rules of all tables that the host uses.
func (c *commands) dump(ctx context.Context) ([]byte, error) {
	return c.run(ctx, c.save, nil, nil)
}

// probeVersion finds out the variant of the commands, and what they can do.
func (c *commands) probeVersion(ctx context.Context) error {
	version, err := c.run(ctx, c.command, []string{"--version"}, nil)
	c.nft = bytes.Contains(version, []byte("nf_tables"))
	c.plain = !c.nft && older(version, 1, 6, 2)
	return err
}

// versionForm is the version in the output of --version: "iptables v1.8.9 (nf_tables)".
var versionForm = regexp.MustCompile(`v(\d+)\.(\d+)\.(\d+)`)

// older tells whether a version is before a release, or cannot be read.
func older(version []byte, release ...int) bool {
	match := versionForm.FindSubmatch(version)
	if match == nil {
		return true
	}
	var is []int
	for _, part := range match[1:] {
		n, err := strconv.Atoi(string(part))
		if err != nil {
			return true
		}
		is = append(is, n)
	}
	return slices.Compare(is, release) < 0
}

// list returns the rules of one chain. It creates the table if the host does not use it.
func (c *commands) list(ctx context.Context, table, chain string) ([]byte, error) {
	return c.run(ctx, c.command, []string{"--wait", lockWait, "-t", table, "-S", chain}, nil)
}

// apply runs a script, in one transaction unless the kernel refuses its size. The nft variant sends a transaction as
// one message, whose size only real root may raise above net.core.wmem_max; elsewhere, as in a user namespace, a long
// script is run in parts. So is one that would take the nft variant hours.
func (c *commands) apply(ctx context.Context, s *script) error {
	crowded := c.nft && s.crowded()
	for queue := []*script{s}; len(queue) > 0; {
		head := queue[0]
		if c.maxSize > 0 && head.size() > c.maxSize || crowded && head.width() > maxWidth {
			if first, second, ok := head.halves(); ok {
				queue = append([]*script{first, second}, queue[1:]...)
				continue
			}
		}
		err := c.write(ctx, head)
		if err != nil && strings.Contains(err.Error(), "Message too long") {
			if _, _, ok := head.halves(); ok {
				c.maxSize = head.size() / 2
				continue
			}
		}
		if err != nil {
			return err
		}
		queue = queue[1:]
	}
	return nil
}

// write runs a script in one transaction.
func (c *commands) write(ctx context.Context, s *script) error {
	if s.empty() {
		return nil
	}
	text := s.text()
	_, err := c.run(ctx, c.restore, []string{"--noflush", "--wait", lockWait}, text)
	if err == nil {
		if c.wroteOne != nil {
			c.wroteOne()
		}
		return nil
	}
	if line := failedLine(err.Error(), text); line != "" {
		return fmt.Errorf("write table %s: at %q: %w", s.table, line, err)
	}
	return fmt.Errorf("write table %s: %w", s.table, err)
}

// lineForm is how the variants name the line of their input that failed: "line 5 failed", "line 5: CHAIN_DEL failed",
// "Error occurred at line: 5".
var lineForm = regexp.MustCompile(`line:? (\d+)`)

// failedLine returns the line of the script that an error message names.
func failedLine(message string, script []byte) string {
	match := lineForm.FindStringSubmatch(message)
	if match == nil {
		return ""
	}
	n, err := strconv.Atoi(match[1])
	lines := strings.Split(string(script), "\n")
	if err != nil || n < 1 || n > len(lines) {
		return ""
	}
	return lines[n-1]
}
