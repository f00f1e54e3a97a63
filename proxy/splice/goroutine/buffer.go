package goroutine

import "sync"

// bufferSize is the size of the copy buffers, in bytes.
const bufferSize = 16 << 10

type buffer [bufferSize]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func takeBuffer() *buffer { return buffers.Get().(*buffer) }

// load is the result of one read.
type load struct {
	buf     *buffer
	n       int
	err     error
	urgent  bool // it is the client's urgent byte
	gone    bool // at the end of the stream: the connection is no more
	sent    int  // of n, that were sent already
	sendErr error
}
