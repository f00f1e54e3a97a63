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
	file, err := tryLock(path + ".lock")
	if err == nil && Ousted(path, file) { // between open and lock
		err = errors.Join(fmt.Errorf("lock %s: %w", file.Name(), ErrHeld), file.Close())
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// tryLock locks a file, which it makes if it is missing.
func tryLock(name string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("lock the node: %w", err)
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the node: %w", err)
	}
	// Unlike that of fcntl, this lock goes with the descriptor to another process.
	err = control(file, func(fd int) error { return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) })
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, errors.Join(err, file.Close()))
	}
	return file, nil
}

// Held tells whether another daemon has the lock of the node.
func Held(path string) bool {
	lock, err := TryLock(path)
	if err == nil {
		_ = lock.Close() // it was free
	}
	return errors.Is(err, ErrHeld)
}

// Oust takes the lock of the node from a daemon that has it and does not answer: see Ousted. After an error that one
// still has it, as where the disk has no room for a file.
func Oust(path string) (*os.File, error) {
	next := path + ".lock.new"
	lock, err := tryLock(next)
	if err == nil {
		if err = os.Rename(next, path+".lock"); err == nil {
			return lock, nil
		}
		err = errors.Join(err, lock.Close())
	}
	return nil, fmt.Errorf("take the lock of the node from another daemon: %w", err)
}

// Ousted tells whether another daemon has taken the lock from the one that has this file. It costs one system call.
func Ousted(path string, lock *os.File) bool {
	there, err := os.Lstat(path + ".lock")
	if err != nil {
		return false // somebody has removed it: nobody else has it
	}
	ours, err := lock.Stat()
	return err == nil && !os.SameFile(there, ours)
}

// Lock passes on the lock. It stays this process's too until that closes the file, or ends.
func (s *Successor) Lock(lock *os.File) error {
	return control(lock, func(fd int) error { return s.Sockets([]Socket{{Kind: NodeLock}}, []int{fd}) })
}
