package epoll

import (
	"testing"
	"unsafe"
)

// An idle connection is one object of the size class of 896 bytes of Go's allocator, which has 8 of these for itself.
func TestSizeOfConnection(t *testing.T) {
	if size := unsafe.Sizeof(conn{}); size > 888 {
		t.Errorf("%d bytes; the next class has 1024", size)
	}
}
