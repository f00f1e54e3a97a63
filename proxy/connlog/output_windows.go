package connlog

import (
	"io/fs"
	"os"
	"syscall"
)

// openAppend opens path for appending, and lets others rename and delete the file meanwhile, which os.OpenFile does
// not: they could not rotate it. The access list of its folder says who may read it.
func openAppend(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	const share = syscall.FILE_SHARE_READ | syscall.FILE_SHARE_WRITE | syscall.FILE_SHARE_DELETE
	file, err := syscall.CreateFile(name, syscall.FILE_APPEND_DATA|syscall.SYNCHRONIZE, share, nil, syscall.OPEN_ALWAYS,
		syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(file), path), nil
}
