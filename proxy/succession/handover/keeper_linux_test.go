package handover

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// keeperAt runs a keeper until the test ends, and returns its socket.
func keeperAt(t *testing.T, keepFor time.Duration, limit int) (k *Keeper, path string) {
	k, path, _ = endingKeeperAt(t, keepFor, limit)
	return k, path
}

// endingKeeperAt is keeperAt with what ends it.
func endingKeeperAt(t *testing.T, keepFor time.Duration, limit int) (k *Keeper, path string, end func()) {
	folder, err := os.MkdirTemp("", "keep") // the path of a test's own folder may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(t.Output())
	k, path = &Keeper{Log: log, Limit: limit, For: keepFor}, filepath.Join(folder, "keep.sock")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- k.Serve(ctx, path) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		os.RemoveAll(folder)
	})
	t.Cleanup(end)
	return k, path, end
}

func daemonOf(t *testing.T, path string) *Keeping {
	t.Helper()
	var k *Keeping
	eventually(t, "the keeper", func() (err error) {
		k, err = FindKeeper(t.Context(), path, Identity{PID: os.Getpid(), Instance: rand.Text()}, nil)
		return err
	})
	return k
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// pair is a TCP connection and duplicates of both its ends, as a proxy has one to either side.
func pair(t *testing.T) (peer net.Conn, files []int) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	peer, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 { // here both are of one socket: it is the number that counts
		f, err := c.(*net.TCPConn).File()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, int(f.Fd()))
		t.Cleanup(func() { f.Close() })
	}
	t.Cleanup(func() { peer.Close() })
	return peer, files
}

func keptConnection(slot uint32, files []int) *splice.Kept {
	at := netip.MustParseAddrPort("192.0.2.1:80")
	return &splice.Kept{Slot: slot, Files: files, State: &splice.SavedConn{SavedLife: splice.SavedLife{
		ID: uint64(slot), Client: at, OriginalDst: at, Attempts: []record.Attempt{{Endpoint: at}},
	}}}
}

func gives(k *Keeping, all []*splice.Kept) error {
	large, err := k.KeepConns(all)
	if large > 0 {
		err = errors.Join(err, ErrTruncated)
	}
	return err
}

// Connections of a daemon that died are claimed by the next one, once, except for those that it had dropped.
func TestKeeperPassesOn(t *testing.T) {
	_, path := keeperAt(t, time.Minute, 1000)
	first := daemonOf(t, path)
	memory, err := unix.MemfdCreate("test", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	_, files := pair(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cart := Socket{Kind: Front, Name: service.PortName{Name: "cart"}, Address: netip.MustParseAddrPort("0.0.0.0:11000")}
	must(first.Keep(Kept{Memory: true}, memory))
	must(first.Keep(Kept{Sockets: []Socket{cart}}, files[0]))
	must(first.Keep(Kept{Pipes: []uint32{5, 6}}, files[0], files[1], files[0], files[1]))
	must(gives(first, []*splice.Kept{keptConnection(1, files), keptConnection(2, files), keptConnection(3, files)}))
	must(gives(first, []*splice.Kept{keptConnection(3, files)})) // again
	must(first.Drop(Dropped{Slots: []uint32{2, 77}, Pipes: []uint32{5}}))
	first.Close()

	second := daemonOf(t, path)
	r, _, err := second.Claim("")
	must(err)
	if r == nil {
		t.Fatal("nothing was left")
	}
	var ids []uint64
	for _, c := range r.Conns {
		ids = append(ids, c.State.ID)
		closeAll(c.Files[:])
	}
	slices.Sort(ids)
	pipe, has := r.Pipes[6]
	if !slices.Equal(ids, []uint64{1, 3}) || r.Memory < 0 || !slices.Equal(r.Sockets, []Socket{cart}) || !has ||
		len(r.Pipes) != 1 {
		t.Errorf("claimed connections %v, memory %d, sockets %v, pipes %v", ids, r.Memory, r.Sockets, r.Pipes)
	}
	closeAll(append(r.Files, r.Memory, pipe[0], pipe[1]))

	third := daemonOf(t, path) // what was claimed and settled is not claimed again
	must(second.AllSettled())
	must(second.Bye())
	if r, _, err := third.Claim(""); err != nil || r != nil {
		t.Errorf("claimed again: %v, %v", r, err)
	}
	must(third.Bye())
}

// A daemon that has ended before the keeper answers it has nevertheless said all that it said: what it gave last, and
// that it ended in order.
func TestKeeperHearsAll(t *testing.T) {
	for name, inOrder := range map[string]bool{"in order": true, "dead": false} {
		t.Run(name, func(t *testing.T) {
			k, path := keeperAt(t, time.Minute, 1000)
			d := daemonOf(t, path)
			_, files := pair(t)
			k.mu.Lock() // it is busy with the first message
			err := errors.Join(gives(d, []*splice.Kept{keptConnection(1, files)}), d.Ping(),
				gives(d, []*splice.Kept{keptConnection(2, files)}))
			if inOrder {
				err = errors.Join(err, d.Bye())
			} else {
				d.Close()
			}
			k.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			r, _, err := daemonOf(t, path).Claim("")
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case r == nil && !inOrder:
				t.Error("nothing was left")
			case r != nil:
				if r.Close(); inOrder || len(r.Conns) != 2 {
					t.Errorf("%d connections were left", len(r.Conns))
				}
			}
		})
	}
}

// A daemon that ends in order leaves nothing, and the keeper keeps no descriptor.
func TestKeeperForgets(t *testing.T) {
	k, path := keeperAt(t, time.Minute, 1000)
	d := daemonOf(t, path)
	_, files := pair(t)
	if err := gives(d, []*splice.Kept{keptConnection(1, files)}); err != nil {
		t.Fatal(err)
	}
	if err := d.Bye(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the keeper to drop all", func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.descriptors != 0 || len(k.served) != 0 {
			return os.ErrExist
		}
		return nil
	})
}

// Connections that nobody claims are reset, so that no client takes their end for the end of its stream.
func TestKeeperResetsWhatNobodyClaims(t *testing.T) {
	_, path := keeperAt(t, 50*time.Millisecond, 1000)
	d := daemonOf(t, path)
	peer, files := pair(t)
	if err := gives(d, []*splice.Kept{keptConnection(1, files)}); err != nil {
		t.Fatal(err)
	}
	d.Close()
	_ = peer.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := peer.Read(make([]byte, 1)); err == nil || !isReset(err) {
		t.Errorf("the client sees %v", err)
	}
}

// Connections that nobody can claim any more since the keeper ends are reset too.
func TestKeeperResetsAtItsEnd(t *testing.T) {
	k, path, end := endingKeeperAt(t, time.Minute, 1000)
	d := daemonOf(t, path)
	peer, files := pair(t)
	if _, err := d.KeepConns([]*splice.Kept{keptConnection(1, files)}); err != nil {
		t.Fatal(err)
	}
	d.Close()
	orphaned(t, k)
	end()
	_ = peer.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := peer.Read(make([]byte, 1)); err == nil || !isReset(err) {
		t.Errorf("the client sees %v", err)
	}
}

// orphaned waits until the keeper has noticed a death.
func orphaned(t *testing.T, k *Keeper) {
	t.Helper()
	eventually(t, "the death to be noticed", func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.left) == 0 {
			return os.ErrNotExist
		}
		return nil
	})
}

// awaitDescriptors waits until the keeper has so many descriptors.
func awaitDescriptors(t *testing.T, k *Keeper, files int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d descriptors", files), func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.descriptors != files {
			return fmt.Errorf("there are %d", k.descriptors)
		}
		return nil
	})
}

// A daemon that was killed just when it had handed over has what is its successor's by then: that goes on.
func TestKeeperLeavesConnectionsOfTheLiving(t *testing.T) {
	k, path := keeperAt(t, 50*time.Millisecond, 1000)
	old, next := daemonOf(t, path), daemonOf(t, path)
	peer, files := pair(t)
	alone, ofAlone := pair(t)
	err := errors.Join(
		gives(old, []*splice.Kept{keptConnection(1, files), keptConnection(2, ofAlone)}),
		gives(next, []*splice.Kept{keptConnection(1, files)}),
	)
	if err != nil {
		t.Fatal(err)
	}
	awaitDescriptors(t, k, 6)
	old.Close()
	_ = alone.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := alone.Read(make([]byte, 1)); err == nil || !isReset(err) {
		t.Errorf("the client of the dead one sees %v", err)
	}
	if _, err := unix.Write(files[0], []byte("x")); err != nil {
		t.Errorf("the connection of the one that lives: %v", err)
	}
	if _, err := peer.Read(make([]byte, 1)); err != nil {
		t.Errorf("its client sees %v", err)
	}
	if err := next.Bye(); err != nil {
		t.Error(err)
	}
}

// Descriptors of another daemon are room for the next one as soon as they are closed.
func TestKeeperHasRoomAgain(t *testing.T) {
	k, path := keeperAt(t, time.Minute, 10)
	_, files := pair(t)
	give := func(k *Keeping, slot uint32) {
		t.Helper()
		if err := gives(k, []*splice.Kept{keptConnection(slot, files)}); err != nil {
			t.Fatal(err)
		}
	}
	room := func(k *Keeping, want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("room for %d", want), func() error {
			if n := k.Room(); n != want {
				return fmt.Errorf("it is for %d", n)
			}
			return nil
		})
	}
	dead := daemonOf(t, path)
	give(dead, 1)
	give(dead, 2)
	if err := dead.Keep(Kept{Sockets: []Socket{{Kind: Front}}}, files[0]); err != nil {
		t.Fatal(err)
	}
	dead.Close()
	orphaned(t, k)
	next := daemonOf(t, path)
	room(next, 5)
	r, _, err := next.Claim("")
	if err != nil || len(r.Conns) != 2 {
		t.Fatalf("claimed %+v, %v", r, err)
	}
	r.Close()
	if err := next.AllSettled(); err != nil {
		t.Fatal(err)
	}
	if err := next.Drop(Dropped{Sockets: []Socket{{Kind: Front}}}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- next.Wait() }()
	room(next, 10)
	give(next, 3)
	awaitDescriptors(t, k, 2)
	successor := daemonOf(t, path)
	go successor.Wait()
	room(successor, 8)
	give(successor, 3)
	if err := next.Bye(); err != nil {
		t.Fatal(err)
	}
	<-ended
	room(successor, 8)
	if err := successor.Bye(); err != nil {
		t.Error(err)
	}
}

// One that listens and says nothing holds up a start no longer than the daemon waits.
func TestKeeperIsSilent(t *testing.T) {
	path := socketPath(t)
	l, err := platform.ListenPrivate(platform.PacketSocket, path)
	must(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := FindKeeper(ctx, path, own, nil); err == nil || errors.Is(err, ErrNone) || time.Since(began) > step/2 {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

// A keeper that may open no more is given no more, until something is dropped.
func TestKeeperIsFull(t *testing.T) {
	_, path := keeperAt(t, time.Minute, 5)
	d := daemonOf(t, path)
	_, files := pair(t)
	give := func(slot uint32) error { return gives(d, []*splice.Kept{keptConnection(slot, files)}) }
	if err := errors.Join(give(1), give(2)); err != nil {
		t.Fatal(err)
	}
	if err := give(3); !errors.Is(err, ErrFull) {
		t.Errorf("it takes a fifth and a sixth of five descriptors: %v", err)
	}
	if err := errors.Join(d.Drop(Dropped{Slots: []uint32{2, 3}}), give(4)); err != nil {
		t.Error(err)
	}
	cart := Socket{Kind: Front, Name: service.PortName{Name: "cart"}}
	socket := func() error { return d.Keep(Kept{Sockets: []Socket{cart}}, files[0]) }
	if err := errors.Join(socket(), d.Drop(Dropped{Sockets: []Socket{{Kind: Server}}})); err != nil {
		t.Error(err)
	}
	if n := d.Room(); n != 0 {
		t.Errorf("there is room for %d, want none", n)
	}
	if err := errors.Join(d.Drop(Dropped{Sockets: []Socket{cart}}), socket(), d.Bye()); err != nil {
		t.Error(err)
	}
}

func isReset(err error) bool {
	op, ok := err.(*net.OpError)
	return ok && op.Err != nil && op.Err.Error() == "read: connection reset by peer"
}
