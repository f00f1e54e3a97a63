package handover

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The lock is one daemon's, until it and the successor that it has passed it on to have both closed it.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "socket")
	lock, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := lock.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the lock: %v, %v", info, err)
	}
	held := func() bool {
		t.Helper()
		other, err := TryLock(path)
		if err == nil {
			_ = other.Close()
		} else if !errors.Is(err, ErrHeld) {
			t.Error(err)
		}
		return err != nil
	}
	stored, err := NewStored()
	if err != nil {
		t.Fatal(err)
	}
	s, err := stored.Successor(Identity{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Lock(lock); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begun(Begun{}, 0); err != nil {
		t.Fatal(err)
	}
	s.Close()
	p, err := stored.Predecessor(Identity{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	estate, err := p.Begin(0)
	if err != nil || len(estate.Sockets) != 1 || estate.Sockets[0].Kind != NodeLock {
		t.Fatalf("passed on: %+v, %v", estate, err)
	}
	if !held() {
		t.Error("two processes have it, and a third could take it")
	}
	_ = lock.Close()
	if !held() {
		t.Error("the successor has it, and another could take it")
	}
	_ = os.NewFile(uintptr(estate.Files[0]), "lock").Close()
	if held() {
		t.Error("it is held by nobody")
	}
}
