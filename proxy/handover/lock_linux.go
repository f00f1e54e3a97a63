package handover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// TryLock takes the lock of the daemons that hand over at a socket: the one that serves the node has it, so that of two
// that start at once one begins, and the other takes over from it. It is passed on with the sockets, as a NodeLock, and
// is free once no process has the file open. ErrHeld: another daemon has it.
func TryLock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock the node: %w", err)
	}
	file, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the node: %w", err)
	}
	// Unlike that of fcntl, this lock goes with the descriptor to another process.
	err = control(file, func(fd int) error { return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) })
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", file.Name(), errors.Join(err, file.Close()))
	}
	return file, nil
}

// Lock passes on the lock. It stays this process's too until that closes the file, or ends.
func (s *Successor) Lock(lock *os.File) error {
	return control(lock, func(fd int) error { return s.Sockets([]Socket{{Kind: NodeLock}}, []int{fd}) })
}
