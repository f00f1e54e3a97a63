//go:build !windows

package connlog

import "os"

// openAppend opens path for appending, so that a file that is truncated in place goes on at its start. Not everybody
// may read it: the lines say who talked to whom.
func openAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
}
