//go:build !linux

package splicetest

import (
	"net/netip"
	"testing"
)

// silent is an address that does not answer, which only Linux has a way to make on the loopback interface.
func silent(t testing.TB) netip.AddrPort {
	t.Helper()
	t.Skip("no address of this system is certain not to answer")
	return netip.AddrPort{}
}

// systemScenarios are those of the system; they all need Linux.
func systemScenarios() []scenario { return nil }

func isChild() bool { return false }

func runChild(t *trial, _ bool) { t.Skip("needs a process of its own") }
