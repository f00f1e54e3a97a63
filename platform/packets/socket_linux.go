package packets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/packetfilter"
)

// Socket receives what all interfaces of this network namespace receive and send, of the time since it was opened. One
// goroutine reads it.
type Socket struct {
	fd     int
	ring   []byte
	blocks int
	at     int // the block that is next
	drops  Drops
	closed atomic.Bool
}

// blockSize is the room that the kernel fills before it passes it on, unless longestWait is over.
const blockSize = 1 << 18

// Open opens a socket in the network namespace of this process. It receives nothing that the program does not keep.
func Open(o Options) (*Socket, error) {
	// Protocol 0 receives nothing: no packet comes in before the filter is there.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil, ErrCapability
	}
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	s := &Socket{fd: fd, blocks: max(o.Buffer/blockSize, 1)}
	if err := s.set(o.Program); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return s, nil
}

func (s *Socket) set(program packetfilter.Program) error {
	if err := s.SetProgram(program); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return fmt.Errorf("set the version of a packet socket: %w", err)
	}
	const frame = 1 << 11 // of no meaning in this version, but checked
	ring := &unix.TpacketReq3{Block_size: blockSize, Block_nr: uint32(s.blocks), Frame_size: frame,
		Frame_nr: uint32(s.blocks * blockSize / frame), Retire_blk_tov: uint32(longestWait.Milliseconds())}
	if err := unix.SetsockoptTpacketReq3(s.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, ring); err != nil {
		return fmt.Errorf("make the ring of a packet socket: %w", err)
	}
	var err error
	s.ring, err = unix.Mmap(s.fd, 0, s.blocks*blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the ring of a packet socket: %w", err)
	}
	all := &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})}
	if err := unix.Bind(s.fd, all); err != nil {
		return fmt.Errorf("bind a packet socket: %w", errors.Join(err, unix.Munmap(s.ring)))
	}
	return nil
}

// SetProgram replaces the program, for packets from now on.
func (s *Socket) SetProgram(program packetfilter.Program) error {
	code := make([]unix.SockFilter, len(program))
	for i, in := range program {
		code[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	if len(code) == 0 {
		return syscall.EINVAL
	}
	err := unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
	if err != nil {
		return fmt.Errorf("attach the filter to a packet socket: %w", err)
	}
	return nil
}

// Read waits for packets, at most that long, and calls each for those that are there.
func (s *Socket) Read(wait time.Duration, each func(*Frame)) error {
	if !s.filled() {
		poll := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN | unix.POLLERR}}
		if _, err := unix.Poll(poll, int(wait.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for packets: %w", err)
		}
	}
	for range s.blocks {
		if !s.filled() {
			break
		}
		s.readBlock(each)
		s.release()
	}
	return nil
}

// block is the next one.
func (s *Socket) block() []byte { return s.ring[s.at*blockSize:][:blockSize] }

// header is that of the next block, after its version and the offset of what is private.
func (s *Socket) header() *unix.TpacketHdrV1 {
	return (*unix.TpacketHdrV1)(unsafe.Pointer(&s.block()[8]))
}

func (s *Socket) filled() bool {
	return atomic.LoadUint32(&s.header().Block_status)&unix.TP_STATUS_USER != 0
}

func (s *Socket) release() {
	atomic.StoreUint32(&s.header().Block_status, unix.TP_STATUS_KERNEL)
	s.at = (s.at + 1) % s.blocks
}

// addressAt is where in a packet's room the address of its interface is: behind the aligned header.
const addressAt = (unix.SizeofTpacket3Hdr + unix.TPACKET_ALIGNMENT - 1) &^ (unix.TPACKET_ALIGNMENT - 1)

func (s *Socket) readBlock(each func(*Frame)) {
	block, at := s.block(), int(s.header().Offset_to_first_pkt)
	var f Frame
	for range s.header().Num_pkts {
		h := (*unix.Tpacket3Hdr)(unsafe.Pointer(&block[at]))
		from := (*unix.RawSockaddrLinklayer)(unsafe.Pointer(&block[at+addressAt]))
		if read(&f, h, from, block[at:]) {
			each(&f)
		}
		at += int(h.Next_offset)
	}
}

// read reads the packet of a header. False: it is one of the loopback interface that will be received too.
func read(f *Frame, h *unix.Tpacket3Hdr, from *unix.RawSockaddrLinklayer, room []byte) bool {
	*f = Frame{
		Time: int64(h.Sec)*int64(time.Second) + int64(h.Nsec), Interface: int(from.Ifindex), Link: Ethernet,
		Outgoing: from.Pkttype == unix.PACKET_OUTGOING, Length: int(h.Len), Network: int(h.Net) - int(h.Mac),
		Data: room[h.Mac:][:h.Snaplen],
	}
	if f.Link = linkOf(from.Hatype); f.Link == Raw {
		cut := min(max(f.Network, 0), len(f.Data))
		f.Data, f.Length, f.Network = f.Data[cut:], f.Length-cut, 0
	}
	return from.Hatype != unix.ARPHRD_LOOPBACK || !f.Outgoing
}

func linkOf(hatype uint16) Link {
	if hatype == unix.ARPHRD_ETHER || hatype == unix.ARPHRD_LOOPBACK {
		return Ethernet
	}
	return Raw
}

// InterfaceOf names the interface of a frame.
func InterfaceOf(f *Frame) Interface {
	i := Interface{Index: f.Interface, Name: fmt.Sprint("interface", f.Interface), Link: f.Link}
	if known, err := net.InterfaceByIndex(f.Interface); err == nil {
		i.Name = known.Name
	}
	return i
}

// Drops returns how many packets the kernel kept by the filter, and how many of these it had no room for.
func (s *Socket) Drops() Drops {
	if stats, err := unix.GetsockoptTpacketStatsV3(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		s.drops.Seen += uint64(stats.Packets) // the kernel's count includes those that were dropped, and begins again
		s.drops.Dropped += uint64(stats.Drops)
	}
	return s.drops
}

// Close closes the socket, after the last Read.
func (s *Socket) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return errors.Join(unix.Munmap(s.ring), unix.Close(s.fd))
}
