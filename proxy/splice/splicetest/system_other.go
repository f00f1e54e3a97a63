//go:build !linux

package splicetest

// systemScenarios are those of the system; they all need Linux.
func systemScenarios() []scenario { return nil }

func isChild() bool { return false }

func runChild(t *trial, _ bool) { t.Skip("needs a process of its own") }
