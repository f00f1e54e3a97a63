//go:build !windows

package netsh

import "os"

func makeFolder(path string) error { return os.MkdirAll(path, 0o700) }

func checkFile(string) error { return nil }
