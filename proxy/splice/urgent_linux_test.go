package splice

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// Urgent bytes stay where they are in the stream, whatever way it is carried, and nothing after them is lost.
func TestUrgentBytesInTheStream(t *testing.T) {
	for _, c := range []struct{ size, chunk int }{{8 << 20, 1 << 20}, {256 << 10, 1 << 10}} {
		want := make([]byte, c.size)
		rand.Read(want)
		sendAll := func(to *net.TCPConn) {
			for i := 0; i < len(want); i += c.chunk {
				to.Write(want[i : i+c.chunk-1])
				sendUrgent(to, want[i+c.chunk-1])
			}
			to.CloseWrite()
		}
		t.Run(fmt.Sprint("up ", c.size), func(t *testing.T) {
			heard := make(chan []byte, 1)
			r := newRig(t, Options{})
			_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
				inline(c)
				all, _ := io.ReadAll(c)
				heard <- all
			}))
			sendAll(dialTCP(t, at))
			if got := <-heard; !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes arrived, or not in order", len(got), len(want))
			}
			if rec := r.record(t); rec.BytesFromClient != int64(len(want)) || rec.Outcome != OutcomeOK {
				t.Errorf("record %+v", rec)
			}
		})
		t.Run(fmt.Sprint("down ", c.size), func(t *testing.T) {
			r := newRig(t, Options{})
			_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", sendAll))
			client := dialTCP(t, at)
			inline(client)
			if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes arrived, or not in order; %v", len(got), len(want), err)
			}
		})
	}
}

// What is urgent at one side is urgent at the other.
func TestUrgencyIsPassedOn(t *testing.T) {
	r := newRig(t, Options{})
	heard := make(chan byte, 1)
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 4))
		c.Write([]byte("go on"))
		heard <- urgentByte(c)
		io.Copy(io.Discard, c)
	}))
	c := dialTCP(t, at)
	c.Write([]byte("wait"))
	io.ReadFull(c, make([]byte, 5))
	c.Write([]byte("ABO"))
	sendUrgent(c, 'R')
	if got := <-heard; got != 'R' {
		t.Errorf("urgent byte %q, want R", got)
	}
}

func control(c *net.TCPConn, do func(fd int)) {
	raw, err := c.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { do(int(fd)) })
	}
}

func inline(c *net.TCPConn) {
	control(c, func(fd int) { unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) })
}

func sendUrgent(c *net.TCPConn, b byte) {
	raw, err := c.SyscallConn()
	if err == nil {
		raw.Write(func(fd uintptr) bool { return unix.Sendto(int(fd), []byte{b}, unix.MSG_OOB, nil) != unix.EAGAIN })
	}
}

// urgentByte waits for an urgent byte, 0 when none comes.
func urgentByte(c *net.TCPConn) (b byte) {
	control(c, func(fd int) {
		got := []byte{0}
		unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, 5000)
		unix.Recvfrom(fd, got, unix.MSG_OOB)
		b = got[0]
	})
	return b
}
