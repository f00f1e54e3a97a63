package epoll

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory is shared by an engine and whoever goes on with its connections after a crash. It has the bytes that were read
// of one socket and not written to the other, and where in their stream they are. The kernel knows all else. Loops
// write it without a system call. Safe for concurrent use.
type Memory struct {
	fd    int
	bytes []byte
	slots []slotMemory

	mu      sync.Mutex
	free    []uint32 // guarded by mu: slots
	used    int      // guarded by mu: more than the highest slot that was ever taken
	buffers []uint32 // guarded by mu: buffers that nobody uses
}

// slotMemory is the place of one connection.
type slotMemory struct{ up, down flowMemory }

// flowMemory is the shared memory of one direction. A loop notes here each operation before it does it: of the two
// entries, current is the one that counts, so that there is never half of one.
type flowMemory struct {
	entries    [2]entry
	current    atomic.Uint32
	pipe       atomic.Uint32 // the id of the pipe that may hold bytes; 0: none
	peeking    atomic.Uint32 // bytes may be written before they are taken from the source
	unprovable atomic.Uint32 // what happens cannot be told here: urgent data, no memory
	broken     atomic.Uint32 // the error of the source, which the kernel tells once
	ended      atomic.Uint32 // a FIN was passed on, or is about to be
	given      atomic.Uint32 // of up: another process goes on with the connection, and all this is outdated
	errorTaken atomic.Uint32 // the error of the source is read from the kernel: broken is about to be noted
}

// Why what a flow does cannot be told.
const (
	urgentData    = 1 << iota // where the mark is, is not known
	privateBuffer             // no buffer of the memory was left
)

// entry is bytes of the stream in a buffer.
type entry struct {
	start  int64  // the place in the stream of the first byte in the buffer
	buffer uint32 // its index
	_      uint32
}

// MaxKept is how many connections a Memory has places for.
const MaxKept = maxSlots

const (
	maxSlots   = 1 << 15
	maxBuffers = 1 << 10
	slotsSize  = maxSlots * int(unsafe.Sizeof(slotMemory{}))
	memorySize = slotsSize + maxBuffers*bufferSize
)

// NewMemory returns memory that nobody shares yet.
func NewMemory() (*Memory, error) {
	fd, err := unix.MemfdCreate("portald", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make shared memory: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(memorySize)); err != nil {
		sysClose(fd)
		return nil, fmt.Errorf("size shared memory: %w", err)
	}
	return OpenMemory(fd)
}

// OpenMemory maps the memory of another process. The descriptor is the Memory's.
func OpenMemory(fd int) (*Memory, error) {
	bytes, err := unix.Mmap(fd, 0, memorySize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		sysClose(fd)
		return nil, fmt.Errorf("map shared memory: %w", err)
	}
	m := &Memory{fd: fd, bytes: bytes, slots: unsafe.Slice((*slotMemory)(unsafe.Pointer(&bytes[0])), maxSlots)}
	for i := maxSlots; i > 0; i-- {
		m.free = append(m.free, uint32(i-1))
	}
	for i := maxBuffers; i > 0; i-- {
		m.buffers = append(m.buffers, uint32(i-1))
	}
	return m, nil
}

// File is the descriptor of the memory, which stays its own.
func (m *Memory) File() int { return m.fd }

// Close unmaps it.
func (m *Memory) Close() {
	_ = unix.Munmap(m.bytes) // it is mapped
	sysClose(m.fd)
}

// takeSlot returns a clean slot, false if all are taken.
func (m *Memory) takeSlot() (uint32, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.free)
	if n == 0 {
		return 0, false
	}
	i := m.free[n-1]
	m.free, m.used = m.free[:n-1], max(m.used, int(i)+1)
	clear(unsafe.Slice((*byte)(unsafe.Pointer(&m.slots[i])), unsafe.Sizeof(slotMemory{})))
	return i, true
}

// GiveSlots takes slots back that nobody else looks at any more.
func (m *Memory) GiveSlots(slots []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = append(m.free, slots...)
}

// Give notes, in the memory of a process that died, that this one goes on with a connection. It is called before the
// first byte moves: nobody else may go by that memory from then on.
func (m *Memory) Give(slot uint32) {
	if int(slot) < len(m.slots) {
		m.slots[slot].up.given.Store(1)
	}
}

// GiveAll notes that nobody may go by the notes of any connection, until it is kept again: who keeps it cannot be told
// any more what happens, and may take this process for dead.
func (m *Memory) GiveAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.slots[:m.used] {
		m.slots[i].up.given.Store(1)
	}
}

// takeBuffer returns a buffer, nil if all are taken.
func (m *Memory) takeBuffer() *[bufferSize]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.buffers)
	if n == 0 {
		return nil
	}
	i := m.buffers[n-1]
	m.buffers = m.buffers[:n-1]
	return m.buffer(i)
}

// giveBuffer takes a buffer back. False: it is not of this memory.
func (m *Memory) giveBuffer(b *[bufferSize]byte) bool {
	i, ok := m.index(b)
	if ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.buffers = append(m.buffers, i)
	}
	return ok
}

func (m *Memory) buffer(i uint32) *[bufferSize]byte {
	return (*[bufferSize]byte)(m.bytes[slotsSize+int(i)*bufferSize:])
}

// index returns the index of a buffer, false if it is not of this memory.
func (m *Memory) index(b *[bufferSize]byte) (uint32, bool) {
	at := uintptr(unsafe.Pointer(b)) - uintptr(unsafe.Pointer(&m.bytes[slotsSize]))
	if at >= maxBuffers*bufferSize {
		return 0, false
	}
	return uint32(at / bufferSize), true
}

// reads notes that the next bytes are read to the start of a buffer.
func (f *flowMemory) reads(carried int64, buffer uint32) {
	next := f.current.Load() ^ 1
	f.entries[next] = entry{start: carried, buffer: buffer}
	f.current.Store(next)
}
