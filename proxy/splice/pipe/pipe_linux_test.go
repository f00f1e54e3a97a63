package pipe

import (
	"bytes"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/quota"
)

// connected returns both ends of a TCP connection, and the descriptor of the second.
func connected(t *testing.T) (*net.TCPConn, *net.TCPConn, int) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	raw, err := b.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var fd int
	if err := raw.Control(func(of uintptr) { fd = int(of) }); err != nil {
		t.Fatal(err)
	}
	return a, b, fd
}

// fill fills a pipe from a socket that bytes are on their way to.
func fill(t *testing.T, p Pipe, fd int) (int, syscall.Errno) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		n, errno := p.Fill(fd)
		if errno != syscall.EAGAIN || Unspliceable(fd) || time.Now().After(end) {
			return n, errno
		}
	}
}

func TestPipe(t *testing.T) {
	account := quota.NewAccount(quota.Budget{PipePages: 16})
	p, err := Open(account)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(account); err != ErrShare {
		t.Errorf("a pipe beyond the budget: %v", err)
	}
	client, _, from := connected(t)
	server, _, to := connected(t)
	if n, errno := p.Fill(from); n != 0 || errno != syscall.EAGAIN || Unspliceable(from) {
		t.Errorf("nothing was sent: %d bytes, %v", n, errno)
	}
	sent := bytes.Repeat([]byte("0123456789"), 100)
	if _, err := client.Write(sent); err != nil {
		t.Fatal(err)
	}
	if n, errno := fill(t, p, from); n != len(sent) || errno != 0 {
		t.Fatalf("%d bytes, %v, of %d", n, errno, len(sent))
	}
	for left := len(sent); left > 0; {
		n, errno := p.Drain(to, left)
		if errno != 0 {
			t.Fatal(errno)
		}
		left -= n
	}
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("got %q, %v", got, err)
	}
	if err := unix.SetsockoptInt(from, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1); err != nil {
		t.Fatal(err)
	}
	raw, err := client.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	urgent := func(fd uintptr) { err = unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil) }
	if failed := raw.Control(urgent); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	if n, errno := fill(t, p, from); n != 0 || !Unspliceable(from) {
		t.Errorf("an urgent byte: %d bytes, %v", n, errno)
	}
	p.Close()
	if p, err = Open(account); err != nil {
		t.Fatalf("no pipe after the end of the only one: %v", err)
	}
	p.Close()
}

func TestPool(t *testing.T) {
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	before := open()
	pool := Pool{Account: quota.NewAccount(quota.Budget{PipePages: 64})}
	var taken []Pipe
	for {
		p, ok, _ := pool.Take(0)
		if !ok {
			break
		}
		taken = append(taken, p)
	}
	if len(taken) < 2 || len(taken) > 4 {
		t.Fatalf("%d pipes of a budget of 64 pages", len(taken))
	}
	for i, p := range taken {
		if first := pool.Give(p); first != (i == 0) {
			t.Errorf("give %d: expire %v", i, first)
		}
	}
	if p, ok, _ := pool.Take(0); !ok || pool.Give(p) {
		t.Error("no pipe of the idle ones, or a second timer")
	}
	if !pool.Expire() { // one was needed
		t.Error("the pool is empty, or its timer ends")
	}
	if pool.Expire() || open() != before {
		t.Errorf("%d descriptors are open, %d were", open(), before)
	}
	p, ok, _ := pool.Take(0)
	if !ok {
		t.Fatal("no pipe, and the budget is free")
	}
	pool.Give(p)
	pool.Close()
	if open() != before {
		t.Errorf("%d descriptors are open after the end, %d were", open(), before)
	}
}

// A pipe is used once it may be, one that may never be is closed, and one that nobody needs any more too.
func TestPoolOfPipesThatMayBeUsedLater(t *testing.T) {
	use := map[uint32]Use{}
	made, closed := uint32(0), 0
	pool := Pool{
		Account: quota.NewAccount(quota.Budget{PipePages: 1 << 20}),
		Opened:  func(p Pipe) { made, use[p.ID] = p.ID, Later },
		Closed:  func(Pipe) { closed++ },
		Usable:  func(p Pipe) Use { return use[p.ID] },
	}
	defer pool.Close()
	if _, ok, expire := pool.Take(0); ok || !expire {
		t.Error("the first is usable at once, or nobody looks for it again")
	}
	first := made
	if _, ok, expire := pool.Take(0); ok || expire || made == first {
		t.Error("another is not made, or there is a second timer")
	}
	use[made] = Now
	p, ok, _ := pool.Take(0)
	if !ok || p.ID != made {
		t.Fatalf("got %d, %t, want %d", p.ID, ok, made)
	}
	pool.Give(p)
	use[p.ID] = Never
	if q, ok, _ := pool.Take(0); ok || closed != 1 {
		t.Errorf("got %d, and %d are closed", q.ID, closed)
	}
	for range 2 * fresh {
		pool.Take(0)
	}
	if n := len(pool.fresh); n != fresh {
		t.Errorf("%d are made that may be used later", n)
	}
	for id := range use {
		use[id] = Now
	}
	pool.Expire()
	if pool.Expire() || closed != 1+fresh {
		t.Errorf("%d are closed that nobody needs", closed)
	}
}
