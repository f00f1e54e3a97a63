//go:build !linux

package config

// replyMark is none: nothing is marked here.
func replyMark() uint32 { return 0 }
