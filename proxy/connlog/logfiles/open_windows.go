package logfiles

import (
	"io/fs"
	"os"
	"syscall"
)

// openFile opens a file to read it. It may be renamed and removed meanwhile: os.Open would keep the daemon from that.
func openFile(f *file) (*os.File, error) {
	path, err := syscall.UTF16PtrFromString(f.path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: f.path, Err: err}
	}
	flags := uint32(syscall.FILE_ATTRIBUTE_NORMAL)
	if !f.until.IsZero() { // the log alone may be a link
		flags |= syscall.FILE_FLAG_OPEN_REPARSE_POINT
	}
	const share = syscall.FILE_SHARE_READ | syscall.FILE_SHARE_WRITE | syscall.FILE_SHARE_DELETE
	h, err := syscall.CreateFile(path, syscall.GENERIC_READ, share, nil, syscall.OPEN_EXISTING, flags, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: f.path, Err: err}
	}
	return os.NewFile(uintptr(h), f.path), nil
}
