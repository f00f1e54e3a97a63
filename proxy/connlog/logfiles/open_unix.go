//go:build unix

package logfiles

import (
	"os"
	"syscall"
)

// openFile opens a file to read it: without a wait for a writer, if it was replaced by a pipe; and the log alone may be
// a link.
func openFile(f *file) (*os.File, error) {
	flags := os.O_RDONLY | syscall.O_NONBLOCK
	if !f.until.IsZero() {
		flags |= syscall.O_NOFOLLOW
	}
	return os.OpenFile(f.path, flags, 0)
}
