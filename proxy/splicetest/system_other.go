//go:build !linux

package splicetest

import (
	"net"
	"syscall"
)

// systemScenarios is empty: they all need Linux.
func systemScenarios() []scenario { return nil }

func aside() {}

func isChild() bool { return false }

func runChild(t *trial, _ bool) { t.Skip("needs a process of its own") }

// receiveBuffer would set the size of a socket's receive buffer before it is connected or listens.
func receiveBuffer(int) func(_, _ string, _ syscall.RawConn) error { return nil }

// awaitSent would wait until all was acknowledged.
func awaitSent(*net.TCPConn) {}
