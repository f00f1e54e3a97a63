package pipe

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/quota"
)

// Supported tells whether this system has such pipes.
const Supported = true

// Pipe holds bytes on their way from one socket to another: splice(2) copies none of them.
type Pipe struct {
	ID      uint32 // of the pipes of this process, from 1
	r, w    int32
	pages   int32 // its capacity
	account *quota.Account
}

// last is the newest ID.
var last atomic.Uint32

// smallest is the capacity, in bytes, below which a copy is as good.
const smallest = 64 << 10

// Open makes a pipe of as many pages as its share, or of fewer where the kernel grants no more: root's processes
// without CAP_SYS_RESOURCE share fs.pipe-user-pages-soft. The error is ErrShare if the account has no share left.
func Open(account *quota.Account) (Pipe, error) {
	pages, ok := account.Pipes.Take()
	if !ok {
		return Pipe{}, ErrShare
	}
	p, err := open(pages)
	if err != nil {
		account.Pipes.Give(pages)
		return Pipe{}, err
	}
	p.account = account
	account.Pipes.Resize(int64(p.pages) - pages)
	return p, nil
}

func open(pages int64) (Pipe, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return Pipe{}, fmt.Errorf("make a pipe: %w", err)
	}
	size, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, int(pages)<<12)
	if err != nil {
		size, err = unix.FcntlInt(uintptr(fds[0]), unix.F_GETPIPE_SZ, 0)
	}
	p := newPipe(fds[0], fds[1], size)
	if err == nil && size < smallest {
		err = fmt.Errorf("a pipe of %d bytes", size)
	}
	if err != nil {
		p.close()
		return Pipe{}, fmt.Errorf("size a pipe: %w", err)
	}
	return p, nil
}

func newPipe(r, w, size int) Pipe {
	return Pipe{ID: last.Add(1), r: int32(r), w: int32(w), pages: int32(size / syscall.Getpagesize())}
}

// Adopt takes over a pipe of another process that holds bytes: r is read, w written.
func Adopt(account *quota.Account, r, w int) Pipe {
	size, err := unix.FcntlInt(uintptr(r), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		size = smallest
	}
	p := newPipe(r, w, size)
	p.account = account
	account.Pipes.Adopt(int64(p.pages))
	return p
}

// Files are the descriptor that is read, and the one that is written.
func (p Pipe) Files() (r, w int) { return int(p.r), int(p.w) }

// Size is how many bytes it holds at the most.
func (p Pipe) Size() int { return int(p.pages) * syscall.Getpagesize() }

// Fill takes from a socket what there is, without blocking, into the empty pipe. 0 bytes without an error: the end of
// the stream, or an urgent byte.
func (p Pipe) Fill(socket int) (n int, errno syscall.Errno) {
	return move(socket, int(p.w), quota.MaxPipePages<<12)
}

// Drain sends n bytes that the pipe holds, or as many as the socket takes without blocking.
func (p Pipe) Drain(socket, n int) (sent int, errno syscall.Errno) { return move(int(p.r), socket, n) }

// move does not tell the Go scheduler, since it returns soon.
func move(from, to, most int) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(most),
			unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		switch e {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}

// Close discards what the pipe holds.
func (p Pipe) Close() {
	p.close()
	p.account.Pipes.Give(int64(p.pages))
}

func (p Pipe) close() {
	syscall.RawSyscall(unix.SYS_CLOSE, uintptr(p.r), 0, 0) //nolint:errcheck // nothing to be done about it
	syscall.RawSyscall(unix.SYS_CLOSE, uintptr(p.w), 0, 0) //nolint:errcheck // nothing to be done about it
}

// Unspliceable tells whether a socket that Fill got EAGAIN from has something to read nevertheless: bytes from an
// urgent one on, which only a read gets. It may also be something that has arrived since.
func Unspliceable(socket int) bool {
	p := unix.PollFd{Fd: int32(socket), Events: unix.POLLIN | unix.POLLRDHUP}
	var now unix.Timespec
	n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1,
		uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return errno != 0 || n > 0
}
