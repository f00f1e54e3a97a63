package splicetest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func urgentScenarios() []scenario {
	return []scenario{
		{name: "UrgentBytesInTheStream", run: urgentBytesInTheStream, needs: UrgentData},
		{name: "UrgencyIsPassedOn", run: urgencyIsPassedOn, needs: UrgentData},
	}
}

// urgentBytesInTheStream: urgent bytes stay where they are in the stream, whatever way it is carried, and nothing after
// them is lost.
func urgentBytesInTheStream(t *trial) {
	for _, c := range []struct{ size, chunk int }{{8 << 20, 1 << 20}, {256 << 10, 1 << 10}} {
		data := make([]byte, c.size)
		rand.Read(data)
		t.sub(fmt.Sprint("up", c.size), func(t *trial) { urgentUp(t, data, c.chunk) })
		t.sub(fmt.Sprint("down", c.size), func(t *trial) { urgentDown(t, data, c.chunk) })
	}
}

// ready tells the sender that its peer takes urgent bytes as they stand in the stream: others would be missing there.
var ready = []byte("!")

func urgentUp(t *trial, data []byte, chunk int) {
	received := make(chan []byte, 1)
	d := t.start(splice.Options{})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		inline(c)
		c.Write(ready)
		all, _ := io.ReadAll(c)
		received <- all
	}))
	client := dialTCP(t, f.at)
	io.ReadFull(client, make([]byte, len(ready)))
	sendChunks(client, data, chunk)
	if got := <-received; !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes arrived, or not in order", len(got), len(data))
	}
	if rec := d.record(); rec.BytesFromClient != int64(len(data)) || rec.Outcome != record.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
}

func urgentDown(t *trial, data []byte, chunk int) {
	d := t.start(splice.Options{})
	client := dialTCP(t, d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, len(ready)))
		sendChunks(c, data, chunk)
	})).at)
	inline(client)
	client.Write(ready)
	if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes arrived, or not in order; %v", len(got), len(data), err)
	}
}

// sendChunks sends chunks whose last byte is urgent, and ends its direction.
func sendChunks(to *net.TCPConn, data []byte, chunk int) {
	for i := 0; i < len(data); i += chunk {
		to.Write(data[i : i+chunk-1])
		sendUrgent(to, data[i+chunk-1])
	}
	to.CloseWrite()
}

// urgencyIsPassedOn: bytes that are urgent at one side are urgent at the other.
func urgencyIsPassedOn(t *trial) {
	d := t.start(splice.Options{})
	received := make(chan byte, 1)
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 4))
		c.Write([]byte("go on"))
		received <- urgentByte(c)
		io.Copy(io.Discard, c)
	}))
	c := dialTCP(t, f.at)
	c.Write([]byte("wait"))
	io.ReadFull(c, make([]byte, 5))
	c.Write([]byte("ABO"))
	sendUrgent(c, 'R')
	if got := <-received; got != 'R' {
		t.Errorf("urgent byte %q, want R", got)
	}
}

func control(c *net.TCPConn, do func(fd int)) {
	raw, err := c.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { do(int(fd)) })
	}
}

// inline has a socket receive urgent bytes within the stream.
func inline(c *net.TCPConn) {
	control(c, func(fd int) { unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) })
}

func sendUrgent(c *net.TCPConn, b byte) {
	raw, err := c.SyscallConn()
	if err == nil {
		raw.Write(func(fd uintptr) bool {
			return unix.Sendto(int(fd), []byte{b}, unix.MSG_OOB, nil) != unix.EAGAIN
		})
	}
}

// urgentByte waits for an urgent byte, 0 when none comes.
func urgentByte(c *net.TCPConn) (b byte) {
	control(c, func(fd int) {
		got := []byte{0}
		unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, int(longest.Milliseconds()))
		unix.Recvfrom(fd, got, unix.MSG_OOB)
		b = got[0]
	})
	return b
}
