package epoll

import (
	"testing"
	"unsafe"
)

// An idle connection is one object of this size class of Go's allocator.
func TestSizeOfConnection(t *testing.T) {
	if size := unsafe.Sizeof(conn{}); size > 896 {
		t.Errorf("%d bytes; the next class has 1024", size)
	}
}
